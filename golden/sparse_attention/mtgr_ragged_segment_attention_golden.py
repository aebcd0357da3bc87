"""Attention over packed sequences that consist of segments with rules of their own (MTGR generative recommendation).

Formula, per sequence and head: P = softmax(q k^T * scale - 40000 * mask), rounded to v's dtype; O = P v. A query of
segment a sees a key of segment b wholly if b < a, not if b > a, and if a = b by the segment's rule: 0 causal, 1 wholly,
2 only itself.

Shapes: q, k, v [T, H D]; rules [S] int32; segment_lengths [B, S] int32, each row summing to its sequence's length;
cu_seqlens_q, cu_seqlens_k [B + 1] int32, cumulative from 0 and equal; mask_causal, mask_diag [1024, 1024] float32, 1
where masked. Output [T, H D] in q's dtype. Computed in float32, P rounded to v's dtype; scale defaults to D^-0.5.
Source: MTGR (2025). Chosen: the masks follow from positions and rules; mask_causal and mask_diag, the tiles in which
the kernel reads the same masks, are part of the interface and unused.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import owner
from golden.inputs import Draw, pick_case, prefix_sums

MASKED = 40000.0
TILE = 1024


class _Size(NamedTuple):
    segments: tuple[tuple[int, ...], ...]
    heads: int
    dim: int
    tile: int


_SIZES = {
    "smoke": _Size(((9, 3, 5, 6), (4, 0, 1, 3)), heads=2, dim=16, tile=16),
    "p0": _Size(((1600, 8, 200, 1200),), heads=8, dim=64, tile=TILE),
}
CASES = tuple(_SIZES)
RULES = (0, 1, 2, 2)


def mtgr_ragged_segment_attention_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask_causal: torch.Tensor,
    mask_diag: torch.Tensor,
    rules: torch.Tensor,
    segment_lengths: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    num_heads: int = 8,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [T, H D] in q's dtype."""
    query, keys, values = (x.unflatten(-1, (num_heads, -1)).transpose(0, 1) for x in (q, k, v))  # [H, T, D]
    if scale is None:
        scale = query.shape[-1] ** -0.5
    mask = _masked(len(q), rules, segment_lengths, cu_seqlens_q)
    scores = torch.matmul(query.float(), keys.float().transpose(-2, -1)) * scale - mask.float() * MASKED
    weights = torch.softmax(scores, dim=-1).to(v.dtype).float()
    return torch.matmul(weights, values.float()).transpose(0, 1).flatten(1).to(q.dtype)


def _masked(tokens: int, rules: torch.Tensor, segment_lengths: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """Bool [T, T]: key j (column) is hidden from query i (row)."""
    row = torch.arange(tokens, device=rules.device)
    sequence = owner(cu_seqlens[1:], tokens)
    ends = segment_lengths.cumsum(-1)[sequence] + cu_seqlens[sequence][:, None]  # [T, S]: segment ends of its sequence
    segment = (row[:, None] >= ends).sum(-1)
    rule = rules[segment][:, None]
    i, j = row[:, None], row[None, :]
    by_rule = ((rule == 0) & (j <= i)) | (rule == 1) | ((rule == 2) & (i == j))
    earlier = segment[None, :] < segment[:, None]
    visible = (sequence[:, None] == sequence) & (earlier | ((segment[:, None] == segment) & by_rule))
    return ~visible


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    segments = torch.tensor(size.segments, dtype=torch.int32, device=device)
    cumulative = prefix_sums(segments.sum(-1))
    tokens = int(cumulative[-1])
    tile = torch.ones(size.tile, size.tile, device=device)
    return (), {
        **{name: draw.normal(tokens, size.heads * size.dim) for name in ("q", "k", "v")},
        "mask_causal": tile.triu(1),
        "mask_diag": tile - tile.tril().triu(),
        "rules": torch.tensor(RULES, dtype=torch.int32, device=device),
        "segment_lengths": segments,
        "cu_seqlens_q": cumulative,
        "cu_seqlens_k": cumulative.clone(),
        "num_heads": size.heads,
    }
