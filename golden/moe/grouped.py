"""What the grouped expert goldens share: the loop over experts and the factory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from golden.blocks import matmul
from golden.inputs import Draw, prefix_sums


class Size(NamedTuple):
    """Sizes of a case; `counts` are the tokens of each expert."""

    counts: tuple[int, ...]
    hidden: int
    inner: int


def experts(
    tokens: torch.Tensor,
    w13_flat: torch.Tensor,
    w2_flat: torch.Tensor,
    expert_cumsum: torch.Tensor,
    activation: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """y [N, H] in the tokens' dtype: expert e's feed-forward block on rows expert_cumsum[e] … expert_cumsum[e + 1].

    w13_flat [E H, 2 I] and w2_flat [E I, H] hold the experts one under the other. The row counts are read once, which
    synchronises.
    """
    counts = expert_cumsum.diff().tolist()
    parts = zip(tokens.split(counts), w13_flat.chunk(len(counts)), w2_flat.chunk(len(counts)), strict=True)
    outputs = [matmul(activation(*matmul(x, w13).chunk(2, dim=-1)), w2) for x, w13, w2 in parts if len(x)]
    return torch.cat(outputs).to(tokens.dtype)


def make_inputs(size: Size, device: torch.device | str) -> dict[str, torch.Tensor]:
    """Tokens in order of their experts, and the experts' weights."""
    draw = Draw(device)
    number = len(size.counts)
    return {
        "sorted_tokens": draw.normal(sum(size.counts), size.hidden),
        "w13_flat": draw.normal(number * size.hidden, 2 * size.inner, scale=size.hidden**-0.5),
        "w2_flat": draw.normal(number * size.inner, size.hidden, scale=size.inner**-0.5),
        "expert_cumsum": prefix_sums(torch.tensor(size.counts, device=device)),
    }
