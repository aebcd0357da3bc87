"""Sparse MLA decode over selected keys in three caches: fp8 values, bfloat16 rope, float32 scales.

Formula: as ds_v32_sparse_flash_attention_quant, with float8_e4m3fn values in place of int8.

Shapes: q_nope [T N, D], q_rope [T N, Dr], T = B s1; kn_quant [rows, D] fp8, kr [rows, Dr], kn_scales [rows, 4] float32,
rows = blocks * block_size; topk_idx [T, topk] int32, distinct, -1 where unused; block_table [B, width] int32; act_seq
[B] int32, L >= s1. Output [T N, D] in q_nope's dtype. Computed in float32.
Source: DeepSeek V3.2 (2025) on devices with fp8.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.quantise import dequantise_groups
from golden.sparse_attention.selected import Size, attend, paged_inputs, select

_SIZES = {
    "smoke": Size((40, 7, 64), 1, 4, 32, 8, topk=16, blocks=12, block_size=16, width=4),
    "p0": Size((65536, 16381, 666, 15), 1, 128, 512, 64, topk=2048, blocks=647, block_size=128, width=512),
}
CASES = tuple(_SIZES)


def sparse_attention_antiquant_kv_split_golden(
    q_nope: torch.Tensor,
    q_rope: torch.Tensor,
    kn_quant: torch.Tensor,
    kr: torch.Tensor,
    kn_scales: torch.Tensor,
    topk_idx: torch.Tensor,
    block_table: torch.Tensor,
    act_seq: torch.Tensor,
    block_size: int = 128,
    scale: float = 576**-0.5,
) -> torch.Tensor:
    """Return O [T N, D] in q_nope's dtype."""
    rows, visible = select(topk_idx, block_table, act_seq, block_size)
    # Bytes are gathered and reinterpreted, because not every device indexes fp8 tensors.
    values = kn_quant.view(torch.uint8)[rows].view(torch.float8_e4m3fn)
    keys = dequantise_groups(values, kn_scales[rows])
    return attend(q_nope, q_rope, keys, kr[rows], visible, scale).to(q_nope.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    rows = size.blocks * size.block_size
    return (), paged_inputs(size, device) | {
        "kn_quant": draw.normal(rows, size.nope, dtype=torch.float8_e4m3fn),
        "kr": draw.normal(rows, size.rope),
        "kn_scales": draw.uniform(0.5, 2.0, rows, 4),
        "block_size": size.block_size,
    }
