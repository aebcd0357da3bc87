"""Queries and head weights of the lightning indexer, int8 (DeepSeek V4).

Formula: q = (qr W) * qr_scale * w_scale, per head; RoPE on the last Dr channels, rotating the pairs (2i, 2i + 1) in
place; times a Hadamard matrix; int8 per token and head (amax / 127);   weights = (x W_proj) / sqrt(N D).

Shapes: qr [T, Rq] int8; x [T, H]; cos, sin [T, Dr], two equal halves; qr_scale [T, 1]; idx_wq_b [Rq, N D] int8;
idx_wq_b_scale [N D, 1]; weights_proj [H, N]; hadamard [D, D]. Outputs: q [T, N, D] int8, q_scale [T, N] float32,
weights [T, N] in x's dtype. Computed in float32.
Source: DeepSeek V4 indexer. Chosen: the pair (e, o) becomes (e cos - o sin, o cos + e sin); one public variant turns
the other way (-sin).
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, rope_tail
from golden.quantise import matmul_int8, quantise_int8


def ds_v4_lightning_indexer_prolog_quant_v4_golden(
    qr: torch.Tensor,
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    qr_scale: torch.Tensor,
    idx_wq_b: torch.Tensor,
    idx_wq_b_scale: torch.Tensor,
    weights_proj: torch.Tensor,
    hadamard: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q [T, N, D] int8, q_scale [T, N] float32, weights [T, N] in x's dtype."""
    heads, dim = weights_proj.shape[1], hadamard.shape[0]
    query = (matmul_int8(qr, idx_wq_b) * qr_scale * idx_wq_b_scale.flatten()).unflatten(-1, (heads, dim))
    query = matmul(rope_tail(query, cos[:, None], sin[:, None]), hadamard)
    q, q_scale = quantise_int8(query)
    weights = matmul(x, weights_proj) * (heads * dim) ** -0.5
    return q, q_scale.squeeze(-1), weights.to(x.dtype)
