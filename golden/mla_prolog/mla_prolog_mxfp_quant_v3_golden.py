"""Projections of multi-head latent attention with MXFP8 operands; writes two paged bfloat16 caches.

Formula: as ds_v32_mla_prolog, where every fp8 operand stands for value * 2^(e8m0 scale), one scale per 32 values along
K;
    the normed query latent is quantised to MXFP8 again before Wuq_qr (quantise_mx: exponent rounded down);
    k_nope = RMSNorm(c) gamma_ckv and k_rope are written at the slots cache_index; -1 writes nothing.

Shapes: token_x [T, H] fp8 e4m3, token_x_scale [T, H / 64, 2] e8m0; w_dq [H, Rq], w_uq_qr [Rq, N (Dn + Dr)],
w_dkv_kr [H, R + Dr] fp8, each with a scale [K / 64, columns, 2] e8m0; w_uk [N, Dn, R]; gamma_cq [Rq]; gamma_ckv [R];
cos, sin [T, Dr]; kv_cache [blocks, block_size, 1, R] and kr_cache [blocks, block_size, 1, Dr] bfloat16; cache_index [T]
int64, unique where not -1. H and Rq are multiples of 64. Outputs: q_nope [T, N, R] and q_rope [T, N, Dr] in w_uk's
dtype, kv_cache, kr_cache. Computed in float32.
Source: DeepSeek V3.2 prolog in the OCP MX format. Chosen: RoPE of the pairs (i, i + Dr / 2), as in the unquantised
operator; eps 1e-6; scales per 64 of each weight's own K, where one source gives H / 128 for one of them.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul, rms_norm, rope_half, write_slots
from golden.inputs import Draw, pick_case, rope_tables, unique_slots
from golden.quantise import dequantise_mx, dequantise_mx_weight, quantise_mx


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
    "p0": _Size(8, 7168, 1536, 128, 128, 64, 512, 2048, 128),
}
CASES = tuple(_SIZES)


def mla_prolog_mxfp_quant_v3_golden(
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
    x = dequantise_mx(token_x, token_x_scale)
    q_norm = rms_norm(matmul(x, dequantise_mx_weight(w_dq, w_dq_scale)), gamma_cq, eps)
    q_norm = dequantise_mx(*quantise_mx(q_norm))
    query = matmul(q_norm, dequantise_mx_weight(w_uq_qr, w_uq_qr_scale)).unflatten(-1, (heads, nope + rope))
    q_nope, q_rope = query.split([nope, rope], dim=-1)
    latent, k_rope = matmul(x, dequantise_mx_weight(w_dkv_kr, w_dkv_kr_scale)).split([lora, rope], dim=-1)
    write_slots(kv_cache, cache_index, rms_norm(latent, gamma_ckv, eps)[:, None])
    write_slots(kr_cache, cache_index, rope_half(k_rope, cos, sin)[:, None])
    q_nope = torch.einsum("tnd,ndr->tnr", q_nope, w_uk.float())
    q_rope = rope_half(q_rope, cos[:, None], sin[:, None])
    return q_nope.to(w_uk.dtype), q_rope.to(w_uk.dtype), kv_cache, kr_cache


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    fp8 = torch.float8_e4m3fn

    def weight(name: str, rows: int, columns: int) -> dict[str, torch.Tensor]:
        value = draw.normal(rows, columns, dtype=fp8)
        return {name: value, f"{name}_scale": draw.e8m0(-7, -4, rows // 64, columns, 2)}

    cos, sin = rope_tables(torch.arange(100, 100 + size.tokens, device=device), size.rope, torch.bfloat16)
    return (), {
        "token_x": draw.normal(size.tokens, size.hidden, dtype=fp8),
        "token_x_scale": draw.e8m0(-1, 2, size.tokens, size.hidden // 64, 2),
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
