"""Key/value side of multi-head latent attention, expanded per head (DeepSeek V2 Lite).

Formula, with [c | r] = x Wa, c of R columns and r of Dr:
    [k_nope | v] per head = (RMSNorm(c) * ln_weight) Wb,   k_pe = RoPE(r)
RoPE rotates the pairs (i, i + Dr / 2).

Shapes: hidden_states [B, S, H]; kv_a_weight [H, R + Dr]; kv_b_weight [R, N (Dn + Dv)]; ln_weight [R]; cos, sin [T, Dr];
position_ids [B, S], T = B S. Outputs in the dtype of hidden_states: k_nope [T, N, Dn], v [T, N, Dv], k_pe [T, Dr].
Computed in float32.
Source: DeepSeek V2 (2024), section 2.1; shapes of DeepSeek-V2-Lite-Chat.
Chosen: position_ids is part of the interface and unused, because cos and sin already are those of the positions.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, rms_norm, rope_half


def mla_prolog_ds_v2_lite_golden(
    hidden_states: torch.Tensor,
    kv_a_weight: torch.Tensor,
    kv_b_weight: torch.Tensor,
    ln_weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor,
    num_heads: int = 16,
    qk_nope: int = 128,
    v_head_dim: int = 128,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return k_nope [T, N, Dn], v [T, N, Dv], k_pe [T, Dr]."""
    dtype = hidden_states.dtype
    latent, k_pe = matmul(hidden_states.flatten(0, 1), kv_a_weight).split([ln_weight.shape[0], cos.shape[-1]], dim=-1)
    expanded = matmul(rms_norm(latent, ln_weight, eps), kv_b_weight).unflatten(-1, (num_heads, -1))
    k_nope, v = expanded.split([qk_nope, v_head_dim], dim=-1)
    return k_nope.to(dtype), v.to(dtype), rope_half(k_pe, cos, sin).to(dtype)
