"""Gated delta rule, token by token; updates the state in place (Qwen3.5 decode).

Formula, per head: S <- exp(g) S;   S <- S + k (beta (v - S^T k))^T;   o = scale S^T q, with q and k L2-normalised
first.

Shapes: q, k [B, T, H, K]; v [B, T, H, V]; g [B, T, H] float32, log decay, <= 0; beta [B, T, H], in 0 … 1; initial_state
[B, H, K, V]. Outputs: o [B, T, H, V] in q's dtype, final_state, which is initial_state. Computed in float32; the state
is rounded to its dtype once, at the end. scale defaults to K^-0.5; the norm is x / sqrt(sum x^2 + 1e-6).
Source: Yang et al. 2024, gated delta networks; shapes of Qwen3.5 9B.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.linear_attention.delta_rule import l2norm, repeat_heads, token_step

# batch, tokens, heads, channels
_SIZES = {"smoke": (2, 1, 4, 16), "p0": (1, 1, 32, 128)}
CASES = tuple(_SIZES)


def recurrent_gated_delta_rule_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    scale: float | None = None,
    use_qk_l2norm: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [B, T, H, V] and initial_state, updated. q and k may have fewer heads than v, each serving several."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    query, key = (repeat_heads(l2norm(x) if use_qk_l2norm else x.float(), v.shape[2]) for x in (q, k))
    state, outputs = initial_state.float(), []
    for t in range(q.shape[1]):
        gate, strength = g[:, t, :, None].float(), beta[:, t].float()
        out, state = token_step(query[:, t], key[:, t], v[:, t].float(), gate, strength, state, scale)
        outputs.append(out)
    initial_state.copy_(state)
    return torch.stack(outputs, dim=1).to(q.dtype), initial_state


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    batch, tokens, heads, dim = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        **{name: draw.normal(batch, tokens, heads, dim) for name in ("q", "k", "v")},
        "g": draw.uniform(-1.0, 0.0, batch, tokens, heads),
        "beta": draw.uniform(0.0, 1.0, batch, tokens, heads, dtype=torch.bfloat16),
        "initial_state": draw.normal(batch, heads, dim, dim),
    }
