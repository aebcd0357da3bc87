"""Projections of multi-head latent attention with absorbed key weights, all rope columns behind all others.

Formula: c_q = RMSNorm(x Wdq) gamma_cq;   [q_c | q_r] = c_q Wuq_qr, the first N D columns and the last N Dr;
         query = q_c Wuk, per head;   query_rope = RoPE(q_r);   kv = RMSNorm(c) gamma_ckv and kr = RoPE(r) of
         [c | r] = x Wdkv_kr.
RoPE rotates the pairs (2i, 2i + 1) in place.

Shapes: token_x [T, H]; weight_dq [H, Rq]; weight_uq_qr [Rq, N (D + Dr)]; weight_uk [N, D, R]; weight_dkv_kr [H, R +
Dr]; rmsnorm_gamma_cq [Rq]; rmsnorm_gamma_ckv [R]; rope_sin, rope_cos [T, Dr], two equal halves. Outputs in token_x's
dtype: query [T, N, R], query_rope [T, N, Dr], kv [T, R], kr [T, Dr]. Computed in float32.
Source: DeepSeek V2 (2024), section 2.1; interface of the Ascend operator MlaProlog (sine before cosine).
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, rms_norm, rope_pairs


def mla_prolog_golden(
    token_x: torch.Tensor,
    weight_dq: torch.Tensor,
    weight_uq_qr: torch.Tensor,
    weight_uk: torch.Tensor,
    weight_dkv_kr: torch.Tensor,
    rmsnorm_gamma_cq: torch.Tensor,
    rmsnorm_gamma_ckv: torch.Tensor,
    rope_sin: torch.Tensor,
    rope_cos: torch.Tensor,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return query [T, N, R], query_rope [T, N, Dr], kv [T, R], kr [T, Dr] in token_x's dtype."""
    heads, dim, lora = weight_uk.shape
    rope = rope_cos.shape[-1]
    projected = matmul(rms_norm(matmul(token_x, weight_dq), rmsnorm_gamma_cq, eps), weight_uq_qr)
    q_c, q_r = projected.split([heads * dim, heads * rope], dim=-1)
    c, r = matmul(token_x, weight_dkv_kr).split([lora, rope], dim=-1)
    outputs = (
        torch.einsum("tnd,ndr->tnr", q_c.unflatten(-1, (heads, dim)), weight_uk.float()),
        rope_pairs(q_r.unflatten(-1, (heads, rope)), rope_cos[:, None], rope_sin[:, None]),
        rms_norm(c, rmsnorm_gamma_ckv, eps),
        rope_pairs(r, rope_cos, rope_sin),
    )
    return tuple(output.to(token_x.dtype) for output in outputs)
