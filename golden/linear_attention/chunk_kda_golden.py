"""Kimi delta attention over a prompt in chunks of 128, gates by a log-sigmoid (Ling 3.0 flash prefill).

Formula: delta_rule.py with g per channel, after q / |q| and k / |k|.

Shapes: q, k [B, T, H, K]; v [B, T, H, V]; g [B, T, H, K], log decay, <= 0; beta [B, T, H] float32, in 0 … 1;
initial_state [B, H, V, K] float32. Outputs: o [B, T, H, V] in q's dtype, final_state [B, H, V, K] float32, a new
tensor. Computed in float32; scale defaults to K^-0.5.
Source: Kimi Linear 2025, shapes of Ling 3.0 flash. Chosen: the norm of q and k can be switched off, and T may leave a
shorter last chunk, where the kernel wants a multiple.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.linear_attention.delta_rule import delta_rule, l2norm

# batch, tokens, heads, channels, chunk
_SIZES = {"smoke": (1, 24, 2, 16, 8), "p0": (1, 128, 4, 128, 128)}
CASES = tuple(_SIZES)


def chunk_kda_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    chunk: int = 128,
    scale: float | None = None,
    use_qk_l2norm: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [B, T, H, V] and final_state [B, H, V, K]."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    query, key = (l2norm(x) if use_qk_l2norm else x for x in (q, k))
    out, state = delta_rule(query, key, v, g, beta, initial_state.transpose(-2, -1), chunk, scale)
    return out.to(q.dtype), state.transpose(-2, -1).contiguous()


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    batch, tokens, heads, dim, chunk = pick_case(_SIZES, case)
    draw = Draw(device)
    gate = torch.nn.functional.logsigmoid(draw.normal(batch, tokens, heads, dim, dtype=torch.float32))
    return (), {
        **{name: draw.normal(batch, tokens, heads, dim) for name in ("q", "k", "v")},
        "g": gate.to(torch.bfloat16),
        "beta": draw.uniform(0.0, 1.0, batch, tokens, heads),
        "initial_state": draw.normal(batch, heads, dim, dim, dtype=torch.float32),
        "chunk": chunk,
    }
