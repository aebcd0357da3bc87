"""Sparse MLA decode over selected keys, each packed into one row of bytes with fp8 values.

Formula: as ds_v32_sparse_attention_antiquant, with float8_e4m3fn values in place of int8 and rows padded from 656 to
672 bytes.

Shapes: q_nope [T N, D], q_rope [T N, Dr], T = B s1; kv_cache [rows, 672] uint8, rows = blocks * block_size; topk_idx
[T, topk] int32, distinct, -1 where unused; block_table [B, width] int32; act_seq [B] int32, L >= s1. Output [T N, D] in
q_nope's dtype. Computed in float32.
Source: DeepSeek V3.2 (2025) on devices with fp8. The P0 case has sequences shorter than topk and tables of different
use.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pack_rows, pick_case
from golden.quantise import dequantise_groups
from golden.sparse_attention.selected import Size, attend, paged_inputs, select

_SIZES = {
    "smoke": Size((40, 7, 64), 1, 4, 32, 8, topk=16, blocks=12, block_size=16, width=4),
    "p0": Size((65536, 16381, 666, 15), 1, 128, 512, 64, topk=2048, blocks=647, block_size=128, width=512),
}
CASES = tuple(_SIZES)
SCALES = 4  # per key
PADDING = 16  # bytes behind the scales


def sparse_attention_antiquant_fp8_golden(
    q_nope: torch.Tensor,
    q_rope: torch.Tensor,
    kv_cache: torch.Tensor,
    topk_idx: torch.Tensor,
    block_table: torch.Tensor,
    act_seq: torch.Tensor,
    block_size: int = 128,
    scale: float = 576**-0.5,
) -> torch.Tensor:
    """Return O [T N, D] in q_nope's dtype."""
    rows, visible = select(topk_idx, block_table, act_seq, block_size)
    widths = [q_nope.shape[-1], 2 * q_rope.shape[-1], 4 * SCALES, PADDING]
    values, rope, scales, _ = kv_cache[rows].split(widths, dim=-1)
    keys = dequantise_groups(values.contiguous().view(torch.float8_e4m3fn), scales.contiguous().view(torch.float32))
    return attend(q_nope, q_rope, keys, rope.contiguous().view(torch.bfloat16), visible, scale).to(q_nope.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    rows = size.blocks * size.block_size
    values = draw.normal(rows, size.nope, dtype=torch.float8_e4m3fn)
    rope, scales = draw.normal(rows, size.rope), draw.uniform(0.5, 2.0, rows, SCALES)
    packed = pack_rows(values, rope, scales, row_bytes=size.nope + 2 * size.rope + 4 * SCALES + PADDING)
    return (), paged_inputs(size, device) | {"kv_cache": packed, "block_size": size.block_size}
