"""Projections of multi-head latent attention with absorbed key weights (DeepSeek V3.2).

Formula: qa = RMSNorm(x Wdq) gamma_cq;   [qn | qr] per head = qa Wuq_qr;   q_nope = qn Wuk, per head;   q_rope =
RoPE(qr)
         [c | r] = x Wdkv_kr;   k_nope = RMSNorm(c) gamma_ckv;   k_rope = RoPE(r)
RoPE rotates the pairs (i, i + Dr / 2).

Shapes: x [T, H]; w_dq [H, Rq]; w_uq_qr [Rq, N (Dn + Dr)]; w_uk [N, Dn, R]; w_dkv_kr [H, R + Dr]; gamma_cq [Rq];
gamma_ckv [R]; cos, sin [T, Dr], two equal halves. Outputs in x's dtype: q_nope [T, N, R], q_rope [T, N, Dr],
k_nope [T, R], k_rope [T, Dr]. Computed in float32.
Source: DeepSeek V2 (2024), section 2.1 and appendix C for the absorption; shapes of DeepSeek V3.2.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, rms_norm, rope_half


def ds_v32_mla_prolog_golden(
    x: torch.Tensor,
    w_dq: torch.Tensor,
    w_uq_qr: torch.Tensor,
    w_uk: torch.Tensor,
    w_dkv_kr: torch.Tensor,
    gamma_cq: torch.Tensor,
    gamma_ckv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q_nope [T, N, R], q_rope [T, N, Dr], k_nope [T, R], k_rope [T, Dr] in x's dtype."""
    heads, nope, lora = w_uk.shape
    rope = cos.shape[-1]
    query = matmul(rms_norm(matmul(x, w_dq), gamma_cq, eps), w_uq_qr).unflatten(-1, (heads, nope + rope))
    q_nope, q_rope = query.split([nope, rope], dim=-1)
    latent, k_rope = matmul(x, w_dkv_kr).split([lora, rope], dim=-1)
    outputs = (
        torch.einsum("tnd,ndr->tnr", q_nope, w_uk.float()),
        rope_half(q_rope, cos[:, None], sin[:, None]),
        rms_norm(latent, gamma_ckv, eps),
        rope_half(k_rope, cos, sin),
    )
    return tuple(output.to(x.dtype) for output in outputs)
