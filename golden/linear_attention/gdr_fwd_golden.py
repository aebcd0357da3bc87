"""Gated delta rule forward, chunk by chunk, with the inverse that its backward needs.

Formula: delta_rule.py with a gate per head; A holds (I + L)^-1 of every chunk, row i of a chunk at its token.

Shapes: q, k [B, T, H, K]; v [B, T, HV, V], HV a multiple of H; g [B, T, HV], raw log decay, <= 0; beta [B, T, HV], in 0
… 1; initial_state [B, HV, K, V] float32; T a multiple of chunk_size. Outputs: o [B, T, HV, V] in q's dtype, A
[B, T, HV, chunk_size] and final_state [B, HV, K, V], float32. Computed in float32; scale defaults to K^-0.5.
Source: Yang et al. 2024, gated delta networks. Chosen: q and k come normalised: with longer keys the rule diverges, and
the norm's gradient is not part of gdr_bwd.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.inputs import Draw, pick_case
from golden.linear_attention import delta_rule as rule


class Size(NamedTuple):
    """Sizes of a case."""

    batch: int
    tokens: int
    heads: int
    value_heads: int
    dim: int
    chunk: int


_SIZES = {"smoke": Size(2, 24, 2, 4, 16, 8), "p0": Size(1, 256, 2, 4, 128, 64)}
CASES = tuple(_SIZES)


def gdr_fwd_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    chunk_size: int = 64,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return o [B, T, HV, V], A [B, T, HV, chunk_size] and final_state [B, HV, K, V]."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    heads = v.shape[2]
    query, key = (rule.to_chunks(rule.repeat_heads(x, heads), chunk_size) for x in (q, k))
    value, gates, strength = (rule.to_chunks(x, chunk_size) for x in (v, g[..., None], beta))
    gates = gates.cumsum(-2)
    a = rule.inverse(rule.interactions(key, gates, strength))
    w, u = rule.updates(a, key, value, gates, strength)
    state, pieces = initial_state.float(), []
    for n in range(query.shape[2]):
        v_new = u[:, :, n] - torch.matmul(w[:, :, n], state)
        pieces.append(rule.outputs(query[:, :, n], key[:, :, n], v_new, gates[:, :, n], state, scale))
        state = rule.next_state(key[:, :, n], v_new, gates[:, :, n], state)
    return rule.from_chunks(torch.stack(pieces, dim=2)).to(q.dtype), rule.from_chunks(a), state


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    shape, heads = (size.batch, size.tokens), size.value_heads
    return (), {
        "q": rule.l2norm(draw.normal(*shape, size.heads, size.dim)).to(torch.bfloat16),
        "k": rule.l2norm(draw.normal(*shape, size.heads, size.dim)).to(torch.bfloat16),
        "v": draw.normal(*shape, heads, size.dim),
        "g": draw.uniform(-0.1, -0.001, *shape, heads),
        "beta": draw.uniform(0.0, 1.0, *shape, heads),
        "initial_state": draw.normal(size.batch, heads, size.dim, size.dim, dtype=torch.float32),
        "chunk_size": size.chunk,
    }
