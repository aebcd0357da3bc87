"""Query and key/value projections of DeepSeek V4's latent attention.

Formula: q = RMSNorm per head of ((RMSNorm(x Wqa) gamma_cq) Wqb), without gain;   kv = RMSNorm(x Wkv) gamma_ckv;
RoPE on the last Dr channels of both, rotating the pairs (2i, 2i + 1) in place.

Shapes: x [T, H]; wq_a [H, Rq]; wq_b [Rq, N D]; w_kv [H, D]; gamma_cq [Rq]; gamma_ckv [D]; cos, sin [T, Dr], two equal
halves. Outputs in x's dtype: q [T, N, D], kv [T, D]. Computed in float32.
Source: DeepSeek V4, whose keys and values are one vector per token.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, rms_norm, rope_tail


def ds_v4_mla_prolog_v4_golden(
    x: torch.Tensor,
    wq_a: torch.Tensor,
    wq_b: torch.Tensor,
    w_kv: torch.Tensor,
    gamma_cq: torch.Tensor,
    gamma_ckv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q [T, N, D] and kv [T, D] in x's dtype."""
    head_dim = gamma_ckv.shape[0]
    query = matmul(rms_norm(matmul(x, wq_a), gamma_cq, eps), wq_b).unflatten(-1, (-1, head_dim))
    q = rope_tail(rms_norm(query, None, eps), cos[:, None], sin[:, None])
    kv = rope_tail(rms_norm(matmul(x, w_kv), gamma_ckv, eps), cos, sin)
    return q.to(x.dtype), kv.to(x.dtype)
