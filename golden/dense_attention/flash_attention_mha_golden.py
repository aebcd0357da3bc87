"""Multi-head attention over packed sequences, with the softmax statistics its backward needs.

Formula, per sequence and head: S = q k^T * scale;   m = max S;   P = exp(S - m), rounded to v's dtype;
    l = sum exp(S - m), not rounded;   o = P v / l

Shapes: q, k, v [T, H D]; cu_seqlens_q, cu_seqlens_k [B + 1] int32, cumulative from 0, sequences not empty. Outputs: o
[T, H D] in q's dtype, l and m [T, H, 1] float32. Computed in float32; scale defaults to D^-0.5. No causal mask.
The sequences are computed one after the other: a mask over all tokens would compute every pair of sequences.
Source: Dao et al. 2022 (FlashAttention), whose P is not normalised when it is multiplied.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.inputs import Draw, pick_case, prefix_sums


class Size(NamedTuple):
    """Sizes of a case."""

    lengths: tuple[int, ...]
    heads: int
    dim: int


_SIZES = {"smoke": Size((20, 1, 9), 2, 16), "p0": Size((320,) * 8, 8, 64)}
CASES = tuple(_SIZES)


def flash_attention_mha_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    num_heads: int = 8,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return o [T, H D] in q's dtype, l and m [T, H, 1] float32."""
    if scale is None:
        scale = (q.shape[-1] // num_heads) ** -0.5
    q_lengths, k_lengths = cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist()  # one read, which synchronises
    splits = zip((q, k, v), (q_lengths, k_lengths, k_lengths), strict=True)
    heads = (x.unflatten(-1, (num_heads, -1)).split(lengths) for x, lengths in splits)
    parts = [_one_sequence(*sequence, scale) for sequence in zip(*heads, strict=True)]
    o, l, m = (torch.cat(part) for part in zip(*parts, strict=True))  # noqa: E741 - the name it has in the papers
    return o.flatten(1).to(q.dtype), l, m


def _one_sequence(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """o [L, H, D] in float32, l and m [L, H, 1]."""
    query, keys, values = (x.float().transpose(0, 1) for x in (q, k, v))  # [H, L, D]
    scores = torch.matmul(query, keys.transpose(-2, -1)) * scale
    m = scores.amax(-1, keepdim=True)
    p = torch.exp(scores - m)
    l = p.sum(-1, keepdim=True)  # noqa: E741
    o = torch.matmul(p.to(v.dtype).float(), values) / l
    return o.transpose(0, 1), l.transpose(0, 1), m.transpose(0, 1)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    lengths = torch.tensor(size.lengths, device=device)
    return (), {
        **{name: draw.normal(sum(size.lengths), size.heads * size.dim) for name in ("q", "k", "v")},
        "cu_seqlens_q": prefix_sums(lengths),
        "cu_seqlens_k": prefix_sums(lengths),
        "num_heads": size.heads,
    }
