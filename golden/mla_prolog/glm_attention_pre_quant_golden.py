"""Everything before the attention of a GLM-4.5 layer: residual add, RMSNorm, int8 projection, head norms, partial RoPE.

Formula: h = hidden + residual;   n = RMSNorm(h) ln_gamma + ln_bias;   xq = saturate(round(n x_scale + x_offset));
         [q | k | v] = (xq W + quant_bias) * deq_scale;   q, k = RMSNorm per head, with gain and bias;
         RoPE on the first Dr channels of q and k, rotating the pairs (i, i + Dr / 2).

Shapes: hidden_states, residual [T, H]; ln_gamma, ln_bias, x_scale, x_offset [H]; weight [H, (N + 2 Nkv) D] int8;
quant_bias [columns] int32; deq_scale [columns] float32; q_gamma, q_bias, k_gamma, k_bias [D]; cos, sin [T, 1, Dr / 2].
Outputs in the dtype of hidden_states: q [T, N D], k [T, Nkv D], v [T, Nkv D], residual_out [T, H] = h. Computed in
float32; x_scale and x_offset are a static per-channel quantisation.
Source: GLM-4.5 (12 query heads and 1 kv head per device, rotary dim 64 of 128).
"""

from __future__ import annotations

import torch

from golden.blocks import rms_norm, rope_half
from golden.quantise import matmul_int8, round_int8


def glm_attention_pre_quant_golden(
    hidden_states: torch.Tensor,
    residual: torch.Tensor,
    ln_gamma: torch.Tensor,
    ln_bias: torch.Tensor,
    x_scale: torch.Tensor,
    x_offset: torch.Tensor,
    weight: torch.Tensor,
    quant_bias: torch.Tensor,
    deq_scale: torch.Tensor,
    q_gamma: torch.Tensor,
    q_bias: torch.Tensor,
    k_gamma: torch.Tensor,
    k_bias: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    num_heads: int = 12,
    num_kv_heads: int = 1,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q [T, N D], k [T, Nkv D], v [T, Nkv D] and residual_out [T, H]."""
    dtype = hidden_states.dtype
    summed = hidden_states.float() + residual.float()
    normed = rms_norm(summed, ln_gamma, eps) + ln_bias.float()
    quantised = round_int8(normed * x_scale.float() + x_offset.float())
    projected = (matmul_int8(quantised, weight) + quant_bias.float()) * deq_scale
    heads = projected.unflatten(-1, (-1, q_gamma.shape[0]))
    q, k, v = heads.split([num_heads, num_kv_heads, num_kv_heads], dim=1)
    q = _rope_head(rms_norm(q, q_gamma, eps) + q_bias.float(), cos, sin)
    k = _rope_head(rms_norm(k, k_gamma, eps) + k_bias.float(), cos, sin)
    return tuple(part.flatten(1).to(dtype) for part in (q, k, v, summed))


def _rope_head(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """RoPE on the first 2 * cos.shape[-1] channels; the others pass."""
    turned, plain = x.split([2 * cos.shape[-1], x.shape[-1] - 2 * cos.shape[-1]], dim=-1)
    return torch.cat([rope_half(turned, cos, sin), plain], dim=-1)
