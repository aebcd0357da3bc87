"""Projections of multi-head latent attention, int8 query path, paged int8 keys (DeepSeek V3.2); writes three caches.

Formula: as ds_v32_mla_prolog with
    (qi, s) = int8 per token of RMSNorm(x Wdq) gamma_cq;   [qn | qr] per head = (qi Wuq_qr) * s * w_qb_scale
    RoPE of the pairs (2i, 2i + 1), de-interleaved;   k_nope int8 in groups, one scale each
    k_nope, k_rope and the scales are written at the slots cache_index (block * block_size + offset); -1 writes nothing.

Shapes: x [T, H]; w_dq [H, Rq]; w_uq_qr [Rq, N (Dn + Dr)] int8; w_qb_scale [1, N (Dn + Dr)] float32; w_uk [N, Dn, R];
w_dkv_kr [H, R + Dr]; gamma_cq [Rq]; gamma_ckv [R]; cos, sin [T, Dr]; kv_cache [blocks, block_size, 1, R] int8; kr_cache
[blocks, block_size, 1, Dr] in x's dtype; k_scale_cache [blocks, block_size, 1, G] float32, so that a group is R / G
wide; cache_index [1, T] int64, unique where not -1. Outputs: q_nope [T, N, R] and q_rope [T, N, Dr] in x's dtype,
q_norm [T, Rq] int8, q_norm_scale [T, 1] float32, and the three caches. Computed in float32.
Source: DeepSeek V3.2 inference with 8-bit weights. Chosen: int8 key cache; another source keeps it in bfloat16.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul, rms_norm, rope_interleaved, write_slots
from golden.inputs import Draw, pick_case, rope_tables, unique_slots
from golden.quantise import matmul_int8, quantise_int8, quantise_int8_groups


class _Size(NamedTuple):
    tokens: int
    hidden: int
    q_lora: int
    heads: int
    nope: int
    rope: int
    kv_lora: int
    blocks: int
    block_size: int


_SIZES = {
    "smoke": _Size(4, 128, 64, 4, 16, 8, 32, 2, 16),
    "p0": _Size(4, 7168, 1536, 128, 128, 64, 512, 2, 128),
}
CASES = tuple(_SIZES)
GROUPS = 4  # scales per key


def ds_v32_mla_prolog_quant_golden(
    x: torch.Tensor,
    w_dq: torch.Tensor,
    w_uq_qr: torch.Tensor,
    w_qb_scale: torch.Tensor,
    w_uk: torch.Tensor,
    w_dkv_kr: torch.Tensor,
    gamma_cq: torch.Tensor,
    gamma_ckv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    kv_cache: torch.Tensor,
    kr_cache: torch.Tensor,
    k_scale_cache: torch.Tensor,
    cache_index: torch.Tensor,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, ...]:
    """Return q_nope, q_rope, q_norm, q_norm_scale, kv_cache, kr_cache, k_scale_cache; the caches are the arguments."""
    heads, nope, lora = w_uk.shape
    rope = cos.shape[-1]
    q_norm, q_norm_scale = quantise_int8(rms_norm(matmul(x, w_dq), gamma_cq, eps))
    query = matmul_int8(q_norm, w_uq_qr) * q_norm_scale * w_qb_scale
    q_nope, q_rope = query.unflatten(-1, (heads, nope + rope)).split([nope, rope], dim=-1)
    q_nope = torch.einsum("tnd,ndr->tnr", q_nope, w_uk.float())
    q_rope = rope_interleaved(q_rope, cos[:, None], sin[:, None])

    latent, k_rope = matmul(x, w_dkv_kr).split([lora, rope], dim=-1)
    k_nope, k_scale = quantise_int8_groups(rms_norm(latent, gamma_ckv, eps), lora // k_scale_cache.shape[-1])
    write_slots(kv_cache, cache_index, k_nope[:, None])
    write_slots(kr_cache, cache_index, rope_interleaved(k_rope, cos, sin)[:, None])
    write_slots(k_scale_cache, cache_index, k_scale[:, None])
    return q_nope.to(x.dtype), q_rope.to(x.dtype), q_norm, q_norm_scale, kv_cache, kr_cache, k_scale_cache


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    columns = size.heads * (size.nope + size.rope)
    cos, sin = rope_tables(torch.arange(100, 100 + size.tokens, device=device), size.rope, torch.bfloat16)
    return (), {
        "x": draw.normal(size.tokens, size.hidden),
        "w_dq": draw.weight(size.hidden, size.q_lora),
        "w_uq_qr": draw.integers(-127, 128, size.q_lora, columns),
        "w_qb_scale": draw.uniform(1e-4, 1e-3, 1, columns),
        "w_uk": draw.weight(size.heads, size.nope, size.kv_lora),
        "w_dkv_kr": draw.weight(size.hidden, size.kv_lora + size.rope),
        "gamma_cq": draw.ones(size.q_lora),
        "gamma_ckv": draw.ones(size.kv_lora),
        "cos": cos,
        "sin": sin,
        "kv_cache": draw.zeros(size.blocks, size.block_size, 1, size.kv_lora, dtype=torch.int8),
        "kr_cache": draw.zeros(size.blocks, size.block_size, 1, size.rope),
        "k_scale_cache": draw.zeros(size.blocks, size.block_size, 1, GROUPS, dtype=torch.float32),
        "cache_index": unique_slots(size.tokens, size.blocks * size.block_size, device)[None],
    }
