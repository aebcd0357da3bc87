"""Kimi delta attention (KDA): the delta rule with a gate per channel, chunk by chunk.

Formula: delta_rule.py with g per channel; each query/key head serves HV / H neighbouring value heads.

Shapes: q, k [B, T, H, K]; v [B, T, HV, V]; g [B, T, HV, K], log decay; beta [B, T, HV], in 0 … 1; initial_state
[B, HV, K, V] float32. Outputs: o [B, T, HV, V] in q's dtype, final_state [B, HV, K, V] float32, a new tensor. Computed
in float32; scale defaults to K^-0.5.
Source: Kimi Linear 2025. Chosen: q and k come normalised, because with longer keys the rule diverges; gates of both
signs are allowed, as in the published test (0.1 * randn).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.inputs import Draw, pick_case
from golden.linear_attention.delta_rule import delta_rule, l2norm, repeat_heads


class _Size(NamedTuple):
    batch: int
    tokens: int
    heads: int
    value_heads: int
    dim: int
    chunk: int


_SIZES = {"smoke": _Size(1, 20, 2, 4, 16, 8), "p0": _Size(1, 128, 2, 4, 64, 64)}
CASES = tuple(_SIZES)


def kda_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    chunk: int = 64,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [B, T, HV, V] and final_state [B, HV, K, V]."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    query, key = (repeat_heads(x, v.shape[2]) for x in (q, k))
    out, state = delta_rule(query, key, v, g, beta, initial_state, chunk, scale)
    return out.to(q.dtype), state


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device, torch.float32)
    shape, heads = (size.batch, size.tokens), size.value_heads
    return (), {
        "q": l2norm(draw.normal(*shape, size.heads, size.dim)),
        "k": l2norm(draw.normal(*shape, size.heads, size.dim)),
        "v": draw.normal(*shape, heads, size.dim),
        "g": draw.normal(*shape, heads, size.dim, scale=0.1),
        "beta": torch.sigmoid(draw.normal(*shape, heads)),
        "initial_state": draw.normal(size.batch, heads, size.dim, size.dim),
        "chunk": size.chunk,
    }
