"""Feed-forward blocks of all experts on tokens that are sorted by expert (LLaDA2).

Formula, for expert e and its rows: [gate | up] = x W13_e;   y = (silu(gate) * up) W2_e.

Shapes: sorted_tokens [N, H]; w13_flat [E H, 2 I]; w2_flat [E I, H]; expert_cumsum [E + 1] int32, from 0 to N, experts
may be empty, N at least 1. Output [N, H] in the tokens' dtype. Computed in float32.
Source: LLaDA2 MoE (256 experts, hidden size 2048, inner size 512).
"""

from __future__ import annotations

import torch

from golden.blocks import swiglu
from golden.inputs import pick_case
from golden.moe.grouped import Size, experts, make_inputs

_SIZES = {
    "smoke": Size((0, 3, 1, 0, 5, 0), 64, 32),
    "e4": Size((3, 0, 4, 1), 2048, 512),
    "e8": Size((0, 17, 40, 1, 0, 30, 40, 0), 2048, 512),
}
CASES = tuple(_SIZES)


def llada2_moe_grouped_gemm_golden(
    sorted_tokens: torch.Tensor, w13_flat: torch.Tensor, w2_flat: torch.Tensor, expert_cumsum: torch.Tensor
) -> torch.Tensor:
    """Return y [N, H] in the tokens' dtype."""
    return experts(sorted_tokens, w13_flat, w2_flat, expert_cumsum, swiglu)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    return (), make_inputs(pick_case(_SIZES, case), device)
