"""Fifth stage of chunked KDA: the outputs, from the state before each chunk and the chunk's own writes.

Formula, per chunk: o = scale ((q exp(G)) h + tril(sum_k q_i k_j exp(G_i - G_j)) v_new).

Shapes: q, k [B, T, H, K]; v_new [B, T, H, V]; h [B, T / chunk, H, K, V] float32; g [B, T, H, K] float32, gates G summed
within each chunk; T a multiple of chunk. Output o [B, T, H, V] in q's dtype. Computed in float32; scale defaults to
K^-0.5.
Source: Kimi Linear 2025, chunk form in delta_rule.py.
"""

from __future__ import annotations

import torch

from golden.inputs import pick_case
from golden.linear_attention.delta_rule import from_chunks, outputs, to_chunks
from golden.linear_attention.kda_chunk_h_golden import inputs_of as h_inputs
from golden.linear_attention.kda_chunk_h_golden import kda_chunk_h_golden
from golden.linear_attention.kda_stages import SIZES

CASES = tuple(SIZES)


def kda_chunk_o_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v_new: torch.Tensor,
    h: torch.Tensor,
    g: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Return o [B, T, H, V] in q's dtype."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    chunk = q.shape[1] // h.shape[1]
    query, key, written, gates = (to_chunks(x, chunk) for x in (q, k, v_new, g))
    return from_chunks(outputs(query, key, written, gates, h.float().transpose(1, 2), scale)).to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(SIZES, case)
    made = h_inputs(size, device)
    h, v_new, _ = kda_chunk_h_golden(*(made[name] for name in ("k", "w", "u", "g", "h0")), size.chunk)
    return (), {name: made[name] for name in ("q", "k", "g")} | {"v_new": v_new, "h": h}
