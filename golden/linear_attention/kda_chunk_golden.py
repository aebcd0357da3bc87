"""Kimi delta attention over a prompt, q and k normalised inside, state stored as [V, K] (Kimi Linear prefill).

Formula: delta_rule.py with g per channel, after q / |q| and k / |k|.

Shapes: q, k [B, T, H, K]; v [B, T, H, V]; g [B, T, H, K] float32, log decay, <= 0; beta [B, T, H] float32, in 0 … 1;
initial_state [B, H, V, K] float32. T need not be a multiple of the chunk. Outputs: o [B, T, H, V] in q's dtype,
final_state [B, H, V, K] float32, a new tensor. Computed in float32; scale defaults to K^-0.5.
Source: Kimi Linear 2025, shapes of Kimi-Linear-48B-A3B.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.linear_attention.delta_rule import delta_rule, l2norm

# batch, tokens, heads, channels
_SIZES = {"smoke": (2, 70, 2, 16), "t128": (1, 128, 4, 128), "t100_h32": (1, 100, 32, 128)}
CASES = tuple(_SIZES)


def kda_chunk_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    chunk: int = 64,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [B, T, H, V] and final_state [B, H, V, K]."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    start = initial_state.transpose(-2, -1)
    out, state = delta_rule(l2norm(q), l2norm(k), v, g, beta, start, chunk, scale)
    return out.to(q.dtype), state.transpose(-2, -1).contiguous()


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    batch, tokens, heads, dim = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        **{name: draw.normal(batch, tokens, heads, dim) for name in ("q", "k", "v")},
        "g": draw.uniform(-5.0, 0.0, batch, tokens, heads, dim),
        "beta": draw.uniform(0.0, 1.0, batch, tokens, heads),
        "initial_state": draw.normal(batch, heads, dim, dim, dtype=torch.float32),
    }
