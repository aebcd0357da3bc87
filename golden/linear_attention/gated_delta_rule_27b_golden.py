"""Gated delta rule, token by token, with fewer query/key heads than value heads; updates the state in place (Qwen3.6
27B).

Formula: that of recurrent_gated_delta_rule; each query/key head serves HV / H neighbouring value heads.

Shapes: q, k [B, T, H, K]; v [B, T, HV, V], HV a multiple of H; g [B, T, HV] float32, log decay, <= 0; beta [B, T, HV],
in 0 … 1; initial_state [B, HV, K, V]. Outputs: o [B, T, HV, V] in q's dtype, final_state, which is initial_state.
Computed in float32; scale defaults to K^-0.5.
Source: Yang et al. 2024, gated delta networks; shapes of Qwen3.6 27B (16 query/key heads, 48 value heads).
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.linear_attention.recurrent_gated_delta_rule_golden import recurrent_gated_delta_rule_golden

# batch, tokens, query/key heads, value heads, channels
_SIZES = {"smoke": (2, 1, 2, 6, 16), "p0": (1, 1, 16, 48, 128)}
CASES = tuple(_SIZES)


def gated_delta_rule_27b_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [B, T, HV, V] and initial_state, updated."""
    return recurrent_gated_delta_rule_golden(q, k, v, g, beta, initial_state, scale)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    batch, tokens, heads, value_heads, dim = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        "q": draw.normal(batch, tokens, heads, dim),
        "k": draw.normal(batch, tokens, heads, dim),
        "v": draw.normal(batch, tokens, value_heads, dim),
        "g": draw.uniform(-1.0, 0.0, batch, tokens, value_heads),
        "beta": draw.uniform(0.0, 1.0, batch, tokens, value_heads, dtype=torch.bfloat16),
        "initial_state": draw.normal(batch, value_heads, dim, dim),
    }
