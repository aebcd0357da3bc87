"""Projections of multi-head latent attention with HiFloat8 operands; writes two paged bfloat16 caches.

Formula: as mla_prolog_mxfp_quant_v3, with one float32 scale per token of an activation and per column of a weight:
    y = (x_q W_q) * x_scale * w_scale; the normed query latent is quantised per token again (scale = amax / 32768).

Shapes: token_x [T, H], token_x_scale [T, 1]; w_dq [H, Rq], w_uq_qr [Rq, N (Dn + Dr)], w_dkv_kr [H, R + Dr], each with a
scale [1, columns]; w_uk [N, Dn, R]; gamma_cq [Rq]; gamma_ckv [R]; cos, sin [T, Dr]; kv_cache [blocks, block_size, 1, R]
and kr_cache [blocks, block_size, 1, Dr] bfloat16; cache_index [T] int64, unique where not -1. Outputs: q_nope [T, N, R]
and q_rope [T, N, Dr] in w_uk's dtype, kv_cache, kr_cache. Computed in float32.
Source: DeepSeek V3.2 prolog in HiFloat8. Chosen: torch has no HiFloat8, so these operands are bfloat16 tensors with
values on the HiFloat8 grid: the arithmetic is the operator's, the bytes read are twice as many. RoPE of the pairs
(i, i + Dr / 2), as in the unquantised operator.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul, rms_norm, rope_half, write_slots
from golden.inputs import Draw, pick_case, rope_tables, unique_slots
from golden.quantise import quantise_hifloat8, round_hifloat8


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
    "smoke": _Size(4, 128, 64, 4, 16, 8, 32, 4, 16),
    "p0": _Size(8, 7168, 1536, 128, 128, 64, 512, 32, 128),
}
CASES = tuple(_SIZES)


def mla_prolog_quant_hifp8_v3_golden(
    token_x: torch.Tensor,
    token_x_scale: torch.Tensor,
    w_dq: torch.Tensor,
    w_dq_scale: torch.Tensor,
    w_uq_qr: torch.Tensor,
    w_uq_qr_scale: torch.Tensor,
    w_uk: torch.Tensor,
    w_dkv_kr: torch.Tensor,
    w_dkv_kr_scale: torch.Tensor,
    gamma_cq: torch.Tensor,
    gamma_ckv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    kv_cache: torch.Tensor,
    kr_cache: torch.Tensor,
    cache_index: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q_nope [T, N, R], q_rope [T, N, Dr] and the two caches, which are the arguments."""
    heads, nope, lora = w_uk.shape
    rope = cos.shape[-1]
    q_norm = rms_norm(matmul(token_x, w_dq) * token_x_scale * w_dq_scale, gamma_cq, eps)
    q_norm, q_norm_scale = quantise_hifloat8(q_norm)
    query = (matmul(q_norm, w_uq_qr) * q_norm_scale * w_uq_qr_scale).unflatten(-1, (heads, nope + rope))
    q_nope, q_rope = query.split([nope, rope], dim=-1)
    latent, k_rope = (matmul(token_x, w_dkv_kr) * token_x_scale * w_dkv_kr_scale).split([lora, rope], dim=-1)
    write_slots(kv_cache, cache_index, rms_norm(latent, gamma_ckv, eps)[:, None])
    write_slots(kr_cache, cache_index, rope_half(k_rope, cos, sin)[:, None])
    q_nope = torch.einsum("tnd,ndr->tnr", q_nope, w_uk.float())
    q_rope = rope_half(q_rope, cos[:, None], sin[:, None])
    return q_nope.to(w_uk.dtype), q_rope.to(w_uk.dtype), kv_cache, kr_cache


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)

    def hifloat8(*shape: int) -> torch.Tensor:
        return round_hifloat8(draw.normal(*shape, scale=16.0)).to(torch.bfloat16)

    def weight(name: str, rows: int, columns: int) -> dict[str, torch.Tensor]:
        return {name: hifloat8(rows, columns), f"{name}_scale": draw.uniform(1e-3, 1e-2, 1, columns)}

    cos, sin = rope_tables(torch.arange(100, 100 + size.tokens, device=device), size.rope, torch.bfloat16)
    return (), {
        "token_x": hifloat8(size.tokens, size.hidden),
        "token_x_scale": draw.uniform(1e-3, 1e-2, size.tokens, 1),
        **weight("w_dq", size.hidden, size.q_lora),
        **weight("w_uq_qr", size.q_lora, size.heads * (size.nope + size.rope)),
        "w_uk": draw.weight(size.heads, size.nope, size.kv_lora),
        **weight("w_dkv_kr", size.hidden, size.kv_lora + size.rope),
        "gamma_cq": draw.ones(size.q_lora),
        "gamma_ckv": draw.ones(size.kv_lora),
        "cos": cos,
        "sin": sin,
        "kv_cache": draw.zeros(size.blocks, size.block_size, 1, size.kv_lora),
        "kr_cache": draw.zeros(size.blocks, size.block_size, 1, size.rope),
        "cache_index": unique_slots(size.tokens, size.blocks * size.block_size, device),
    }
