"""Queries, keys and head weights of a lightning indexer in fp8; writes two caches.

Formula: as lightning_indexer_prolog_quant_hif8 with k = LayerNorm(x Wk) gamma, without a bias, and fp8 e4m3 per row
with scale amax / 448.

Shapes: x [T, H]; q_norm [T, Rq] fp8; q_norm_scale [T, 1]; w_qb [Rq, N D]; w_qb_scale [N D]; wk [H, D]; w_proj [H, N];
gamma [D]; hadamard_q, hadamard_k [D, D]; cos, sin [T, Dr]; k_cache [blocks, block_size, 1, D] fp8; k_scale_cache
[blocks, block_size, 1, 1] float32; cache_index [1, T] int64, unique where not -1. Outputs: q [T, N, D] fp8, q_scale
[T, N] float32, the two caches, weights [T, N] in x's dtype. Computed in float32; the norm's eps is 1e-6.
Source: an indexer of 24 heads on hidden size 2560. Chosen: torch's own float8_e4m3fn, where one public source keeps the
values in int8 and float32 containers; one float32 scale per row, although the operator's name says MX.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

import torch

from golden.blocks import layer_norm, matmul, rope_first, write_slots
from golden.lightning_indexer import lightning_indexer_prolog_quant_hif8_golden as hif8
from golden.quantise import quantise_fp8

CASES = hif8.CASES


def lightning_indexer_prolog_quant_mxfp8_golden(
    x: torch.Tensor,
    q_norm: torch.Tensor,
    q_norm_scale: torch.Tensor,
    w_qb: torch.Tensor,
    w_qb_scale: torch.Tensor,
    wk: torch.Tensor,
    w_proj: torch.Tensor,
    gamma: torch.Tensor,
    hadamard_q: torch.Tensor,
    hadamard_k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_cache: torch.Tensor,
    k_scale_cache: torch.Tensor,
    cache_index: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, q_scale, k_cache, k_scale_cache, weights; the caches are the arguments."""
    heads, dim = w_proj.shape[1], wk.shape[1]
    query = (matmul(q_norm, w_qb) * q_norm_scale * w_qb_scale).unflatten(-1, (heads, dim))
    q, q_scale = quantise_fp8(matmul(rope_first(query, cos[:, None], sin[:, None]), hadamard_q))
    key = layer_norm(matmul(x, wk), gamma, None, eps)
    k, k_scale = quantise_fp8(matmul(rope_first(key, cos, sin), hadamard_k))
    write_slots(k_cache, cache_index, k[:, None])
    write_slots(k_scale_cache, cache_index, k_scale[:, None])
    weights = matmul(x, w_proj) * (heads * dim) ** -0.5
    return q, q_scale.squeeze(-1), k_cache, k_scale_cache, weights.to(x.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The HiFloat8 operator's inputs with fp8 for its HiFloat8 tensors."""
    _, inputs = hif8._make_inputs(device, case)
    for name in ("q_norm", "k_cache"):
        inputs[name] = inputs[name].float().clamp(-448, 448).to(torch.float8_e4m3fn)
    return (), inputs
