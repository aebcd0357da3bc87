"""Queries, keys and head weights of the lightning indexer, int8 (DeepSeek V3.2); writes two caches.

Formula: q = (q_norm W_qb) * q_norm_scale * w_qb_scale, per head;   k = LayerNorm(x Wk) ln_gamma + ln_beta;
         both: RoPE on the first Dr channels (pairs (i, i + Dr / 2)), times a Hadamard matrix, int8 per row (amax /
         127); weights = (x W_proj) / sqrt(N D);   k and its scale are written at the slots cache_index; -1 writes
         nothing.

Shapes: x [T, H]; q_norm [T, Rq] int8; q_norm_scale [T, 1]; w_qb [Rq, N D] int8; w_qb_scale [N D]; wk [H, D];
w_proj [H, N]; ln_gamma, ln_beta [D]; cos, sin [T, Dr]; hadamard_q, hadamard_k [D, D]; idx_k_cache
[blocks, block_size, 1, D] int8; idx_k_scale_cache [blocks, block_size, 1, 1] float16; cache_index, T entries of int64,
unique where not -1. Outputs: q [T, N, D] int8, q_scale [T, N] float16, the two caches, weights [T, N] float16.
Computed in float32; scales are rounded to float16 after the division by them.
Source: DeepSeek V3.2 (2025), lightning indexer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import layer_norm, matmul, rope_first, write_slots
from golden.inputs import Draw, pick_case, rope_tables, unique_slots
from golden.quantise import matmul_int8, quantise_int8


class _Size(NamedTuple):
    tokens: int
    hidden: int
    q_lora: int
    heads: int
    dim: int
    rope: int
    blocks: int
    block_size: int


_SIZES = {
    "smoke": _Size(4, 128, 64, 4, 16, 8, 2, 4),
    "p0": _Size(4, 7168, 1536, 64, 128, 64, 2, 4),
}
CASES = tuple(_SIZES)


def ds_v32_lightning_indexer_prolog_quant_golden(
    x: torch.Tensor,
    q_norm: torch.Tensor,
    q_norm_scale: torch.Tensor,
    w_qb: torch.Tensor,
    w_qb_scale: torch.Tensor,
    wk: torch.Tensor,
    w_proj: torch.Tensor,
    ln_gamma: torch.Tensor,
    ln_beta: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    hadamard_q: torch.Tensor,
    hadamard_k: torch.Tensor,
    idx_k_cache: torch.Tensor,
    idx_k_scale_cache: torch.Tensor,
    cache_index: torch.Tensor,
    ln_eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, q_scale, idx_k_cache, idx_k_scale_cache, weights; the caches are the arguments."""
    heads, dim = w_proj.shape[1], wk.shape[1]
    query = (matmul_int8(q_norm, w_qb) * q_norm_scale * w_qb_scale).unflatten(-1, (heads, dim))
    query = matmul(rope_first(query, cos[:, None], sin[:, None]), hadamard_q)
    key = layer_norm(matmul(x, wk), ln_gamma, ln_beta, ln_eps)
    key = matmul(rope_first(key, cos, sin), hadamard_k)
    q, q_scale = quantise_int8(query)
    k, k_scale = quantise_int8(key)
    write_slots(idx_k_cache, cache_index, k[:, None])
    write_slots(idx_k_scale_cache, cache_index, k_scale[:, None])
    weights = matmul(x, w_proj) * (heads * dim) ** -0.5
    return q, q_scale.squeeze(-1).half(), idx_k_cache, idx_k_scale_cache, weights.half()


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    cos, sin = rope_tables(torch.arange(100, 100 + size.tokens, device=device), size.rope, torch.bfloat16)
    return (), {
        "x": draw.normal(size.tokens, size.hidden),
        "q_norm": draw.integers(-127, 128, size.tokens, size.q_lora),
        "q_norm_scale": draw.uniform(1e-3, 1e-2, size.tokens, 1),
        "w_qb": draw.integers(-127, 128, size.q_lora, size.heads * size.dim),
        "w_qb_scale": draw.uniform(1e-4, 1e-3, size.heads * size.dim),
        "wk": draw.weight(size.hidden, size.dim),
        "w_proj": draw.weight(size.hidden, size.heads),
        "ln_gamma": draw.ones(size.dim),
        "ln_beta": draw.zeros(size.dim),
        "cos": cos,
        "sin": sin,
        "hadamard_q": draw.weight(size.dim, size.dim),
        "hadamard_k": draw.weight(size.dim, size.dim),
        "idx_k_cache": draw.zeros(size.blocks, size.block_size, 1, size.dim, dtype=torch.int8),
        "idx_k_scale_cache": draw.zeros(size.blocks, size.block_size, 1, 1, dtype=torch.float16),
        "cache_index": unique_slots(size.tokens, size.blocks * size.block_size, device)[:, None],
    }
