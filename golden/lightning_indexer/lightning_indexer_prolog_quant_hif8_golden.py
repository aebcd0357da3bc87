"""Queries, keys and head weights of a lightning indexer in HiFloat8; writes two caches.

Formula: q = (q_norm W_qb) * q_norm_scale * w_qb_scale, per head;   k = RMSNorm(x Wk) gamma;
         both: RoPE on the first Dr channels (pairs (i, i + Dr / 2)), times a Hadamard matrix, HiFloat8 per row with
         scale amax / 32768;   weights = (x W_proj) / sqrt(N D);
         k and its scale are written at the slots cache_index; -1 writes nothing.

Shapes: x [T, H]; q_norm [T, Rq]; q_norm_scale [T, 1]; w_qb [Rq, N D]; w_qb_scale [N D]; wk [H, D]; w_proj [H, N];
gamma [D]; hadamard_q, hadamard_k [D, D]; cos, sin [T, Dr]; k_cache [blocks, block_size, 1, D]; k_scale_cache
[blocks, block_size, 1, 1] float32; cache_index [1, T] int64, unique where not -1. Outputs: q [T, N, D] bfloat16,
q_scale [T, N] float32, the two caches, weights [T, N] in x's dtype. Computed in float32; the norm's eps is 1e-6.
Source: an indexer of 24 heads on hidden size 2560. Chosen: torch has no HiFloat8, so q_norm, q and k_cache are bfloat16
tensors with values on its grid: the arithmetic is the operator's, their bytes are twice as many.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul, rms_norm, rope_first, write_slots
from golden.inputs import Draw, pick_case, rope_tables, unique_slots
from golden.quantise import quantise_hifloat8, round_hifloat8


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
    "smoke": _Size(4, 128, 64, 4, 16, 8, 2, 16),
    "p0": _Size(4, 2560, 1024, 24, 128, 64, 2, 128),
}
CASES = tuple(_SIZES)


def lightning_indexer_prolog_quant_hif8_golden(
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
    q, q_scale = quantise_hifloat8(matmul(rope_first(query, cos[:, None], sin[:, None]), hadamard_q))
    key = rms_norm(matmul(x, wk), gamma, eps)
    k, k_scale = quantise_hifloat8(matmul(rope_first(key, cos, sin), hadamard_k))
    write_slots(k_cache, cache_index, k[:, None])
    write_slots(k_scale_cache, cache_index, k_scale[:, None])
    weights = matmul(x, w_proj) * (heads * dim) ** -0.5
    return q, q_scale.squeeze(-1), k_cache, k_scale_cache, weights.to(x.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    cos, sin = rope_tables(torch.arange(100, 100 + size.tokens, device=device), size.rope, torch.bfloat16)
    return (), {
        "x": draw.normal(size.tokens, size.hidden),
        "q_norm": round_hifloat8(draw.normal(size.tokens, size.q_lora, scale=16.0)).to(torch.bfloat16),
        "q_norm_scale": draw.uniform(1e-3, 1e-2, size.tokens, 1),
        "w_qb": draw.weight(size.q_lora, size.heads * size.dim),
        "w_qb_scale": draw.uniform(1e-3, 1e-2, size.heads * size.dim),
        "wk": draw.weight(size.hidden, size.dim),
        "w_proj": draw.weight(size.hidden, size.heads),
        "gamma": draw.ones(size.dim),
        "hadamard_q": draw.weight(size.dim, size.dim),
        "hadamard_k": draw.weight(size.dim, size.dim),
        "cos": cos,
        "sin": sin,
        "k_cache": draw.zeros(size.blocks, size.block_size, 1, size.dim),
        "k_scale_cache": draw.zeros(size.blocks, size.block_size, 1, 1, dtype=torch.float32),
        "cache_index": unique_slots(size.tokens, size.blocks * size.block_size, device)[None],
    }
