"""One token of Kimi delta attention with its gate; updates the state in place (Kimi Linear decode).

Formula: g' = g, or -exp(a_log) softplus(g + dt_bias) where these are given; then, with q / |q| and k / |k|, per head:
    S <- diag(exp(g')) S;   S <- S + k (beta (v - S^T k))^T;   o = scale S^T q

Shapes: q, k [B, 1, H, K]; v [B, 1, H, V]; g [B, 1, H, K] float32; beta [B, 1, H] float32, in 0 … 1; state [B, H, V, K]
float32; a_log [H] and dt_bias [H, K] or None. Outputs: o [B, 1, H, V] in q's dtype, and state. Computed in float32;
scale defaults to K^-0.5.
Source: Kimi Linear 2025. Chosen: without a_log the gate is the log decay itself, as in the P0 case.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.linear_attention.delta_rule import l2norm, token_step

# batch, heads, channels
_SIZES = {"smoke": (2, 4, 16), "p0": (1, 32, 128)}
CASES = tuple(_SIZES)


def kda_fused_decode_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    a_log: torch.Tensor | None = None,
    dt_bias: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [B, 1, H, V] and the state, updated. ValueError when only one of a_log and dt_bias is given."""
    if (a_log is None) != (dt_bias is None):
        raise ValueError("a_log and dt_bias belong together: give both or neither.")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    gate = g.float()
    if a_log is not None:
        gate = -torch.exp(a_log.float())[:, None] * torch.nn.functional.softplus(gate + dt_bias.float())
    token = (x[:, 0].float() for x in (l2norm(q), l2norm(k), v, gate, beta))
    out, new = token_step(*token, state.float().transpose(-2, -1), scale)
    state.copy_(new.transpose(-2, -1))
    return out[:, None].to(q.dtype), state


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    batch, heads, dim = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        **{name: draw.normal(batch, 1, heads, dim) for name in ("q", "k", "v")},
        "g": draw.uniform(-5.0, 0.0, batch, 1, heads, dim),
        "beta": draw.uniform(0.0, 1.0, batch, 1, heads),
        "state": draw.normal(batch, heads, dim, dim, dtype=torch.float32),
    }
