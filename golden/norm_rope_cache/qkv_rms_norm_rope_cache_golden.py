"""Head norms and RoPE of a fused QKV projection; keys and values go to int8 caches in the NZ layout, in place.

Formula: [q | k | v] = qkv per token;   q, k = RoPE(RMSNorm per head), rotating the pairs (i, i + D / 2);   q_out = q;
    kq = saturate(round(k / k_scale)), vq = saturate(round(v / v_scale)), written at the slots index; -1 writes nothing.
Element (h, d) of slot s lies at [s / block_size, (h D + d) / 32, s mod block_size, (h D + d) mod 32].

Shapes: qkv [T, (Nq + Nk + Nv) D]; q_gamma, k_gamma [D]; cos, sin [T, D]; index [T] int64, unique where not -1; q_out
[T, Nq D]; k_cache, v_cache [blocks, N D / 32, block_size, 32] int8; k_scale, v_scale [N, D] float32; qkv_size
(B, S, Nq + Nk + Nv, D) with T = B S; head_nums (Nq, Nk, Nv). Outputs: q_out, k_cache, v_cache, updated. Computed in
float32.
Source: interface of the Ascend operator QkvRmsNormRopeCache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from golden.blocks import rms_norm, rope_half
from golden.inputs import Draw, pick_case, rope_tables, unique_slots
from golden.quantise import round_int8


class _Size(NamedTuple):
    batch: int
    tokens: int
    heads: tuple[int, int, int]
    dim: int
    blocks: int
    block_size: int


_SIZES = {
    "smoke": _Size(2, 3, (4, 2, 2), 32, 4, 8),
    "b16": _Size(16, 3, (16, 1, 1), 128, 11898, 128),
    "b4": _Size(4, 3, (64, 4, 4), 128, 512, 128),
}
CASES = tuple(_SIZES)
NZ = 32  # bytes of the innermost dim


def qkv_rms_norm_rope_cache_golden(
    qkv: torch.Tensor,
    q_gamma: torch.Tensor,
    k_gamma: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    index: torch.Tensor,
    q_out: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    qkv_size: Sequence[int],
    head_nums: Sequence[int],
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q_out, k_cache, v_cache, updated."""
    heads = qkv.float().unflatten(-1, (-1, qkv_size[-1]))
    q, k, v = heads.split(list(head_nums), dim=1)
    tables = cos[:, None], sin[:, None]
    q = rope_half(rms_norm(q, q_gamma, eps), *tables)
    k = rope_half(rms_norm(k, k_gamma, eps), *tables)
    q_out.copy_(q.flatten(1))
    _write_nz(k_cache, index, round_int8(k / k_scale))
    _write_nz(v_cache, index, round_int8(v / v_scale))
    return q_out, k_cache, v_cache


def _write_nz(cache: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> None:
    """Write rows [T, N, D] to their slots of an NZ cache."""
    written = index >= 0
    slot, block_size = index[written].long(), cache.shape[2]
    # The slice between the two indices puts the slots first, so that the parts of a row fit as they are.
    cache[slot // block_size, :, slot % block_size] = rows[written].flatten(1).unflatten(-1, (-1, NZ))


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    q_heads, k_heads, v_heads = size.heads
    tokens = size.batch * size.tokens
    cos, sin = rope_tables(torch.arange(100, 100 + tokens, device=device), size.dim, torch.bfloat16)

    def cache(heads: int) -> torch.Tensor:
        return draw.zeros(size.blocks, heads * size.dim // NZ, size.block_size, NZ, dtype=torch.int8)

    return (), {
        "qkv": draw.normal(tokens, sum(size.heads) * size.dim),
        "q_gamma": draw.ones(size.dim),
        "k_gamma": draw.ones(size.dim),
        "cos": cos,
        "sin": sin,
        "index": unique_slots(tokens, size.blocks * size.block_size, device),
        "q_out": draw.zeros(tokens, q_heads * size.dim),
        "k_cache": cache(k_heads),
        "v_cache": cache(v_heads),
        "k_scale": draw.uniform(0.01, 0.1, k_heads, size.dim),
        "v_scale": draw.uniform(0.01, 0.1, v_heads, size.dim),
        "qkv_size": [size.batch, size.tokens, sum(size.heads), size.dim],
        "head_nums": list(size.heads),
    }
