"""Gated delta rule over a prompt, chunk by chunk, from an empty state (Qwen3.5 prefill).

Formula: the recurrence of recurrent_gated_delta_rule in the chunked form of delta_rule.py.

Shapes: q, k [B, T, H, K]; v [B, T, H, V]; g [B, T, H] float32, log decay, <= 0; beta [B, T, H], in 0 … 1. Outputs: o
[B, T, H, V] in q's dtype, final_state [B, H, K, V] float32. q and k are L2-normalised first. Computed in float32; scale
defaults to K^-0.5.
Source: Yang et al. 2024, gated delta networks; shapes of Qwen3.5 9B.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.linear_attention.delta_rule import delta_rule, l2norm

# batch, tokens, heads, channels
_SIZES = {"smoke": (2, 10, 4, 16), "p0": (1, 16, 32, 128)}
CASES = tuple(_SIZES)


def chunk_gated_delta_rule_prefill_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    chunk: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [B, T, H, V] in q's dtype and final_state [B, H, K, V] float32."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    empty = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], device=q.device)
    out, state = delta_rule(l2norm(q), l2norm(k), v, g[..., None], beta, empty, chunk, scale)
    return out.to(q.dtype), state


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    batch, tokens, heads, dim = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        **{name: draw.normal(batch, tokens, heads, dim) for name in ("q", "k", "v")},
        "g": draw.uniform(-1.0, 0.0, batch, tokens, heads),
        "beta": draw.uniform(0.0, 1.0, batch, tokens, heads, dtype=torch.bfloat16),
    }
