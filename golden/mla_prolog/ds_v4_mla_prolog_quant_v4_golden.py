"""Query and key/value projections of DeepSeek V4's latent attention with an int8 query path.

Formula: as ds_v4_mla_prolog_v4, with (qi, s) = int8 per token of RMSNorm(x Wqa) gamma_cq, and
q = RMSNorm per head of ((qi Wqb) * s * wq_b_scale).

Shapes: x [T, H]; wq_a [H, Rq]; wq_b [Rq, N D] int8; wq_b_scale [N D, 1] float32; w_kv [H, D]; gamma_cq [Rq];
gamma_ckv [D]; cos, sin [T, Dr], two equal halves. Outputs: q [T, N, D] and kv [T, D] in x's dtype, qi [T, Rq] int8,
s [T, 1] float32. Computed in float32.
Source: DeepSeek V4 with 8-bit weights.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, rms_norm, rope_tail
from golden.quantise import matmul_int8, quantise_int8


def ds_v4_mla_prolog_quant_v4_golden(
    x: torch.Tensor,
    wq_a: torch.Tensor,
    wq_b: torch.Tensor,
    wq_b_scale: torch.Tensor,
    w_kv: torch.Tensor,
    gamma_cq: torch.Tensor,
    gamma_ckv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q [T, N, D], kv [T, D], qi [T, Rq] int8 and its scale [T, 1]."""
    head_dim = gamma_ckv.shape[0]
    quantised, scale = quantise_int8(rms_norm(matmul(x, wq_a), gamma_cq, eps))
    query = (matmul_int8(quantised, wq_b) * scale * wq_b_scale.flatten()).unflatten(-1, (-1, head_dim))
    q = rope_tail(rms_norm(query, None, eps), cos[:, None], sin[:, None])
    kv = rope_tail(rms_norm(matmul(x, w_kv), gamma_ckv, eps), cos, sin)
    return q.to(x.dtype), kv.to(x.dtype), quantised, scale
