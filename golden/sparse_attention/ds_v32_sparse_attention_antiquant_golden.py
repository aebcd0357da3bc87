"""Sparse MLA decode over selected keys, each packed into one row of bytes with int8 values (DeepSeek V3.2).

Formula: as ds_v32_sparse_flash_attention_quant; a row holds D int8 values, Dr bfloat16 rope values and 4 float32
scales, in this order (512 + 128 + 16 = 656 bytes), and is unpacked by reinterpreting its bytes.

Shapes: q_nope [T N, D], q_rope [T N, Dr], T = B s1; nope_cache [rows, 656] int8, rows = blocks * block_size; topk_idx
[T, topk] int32, distinct, -1 where unused; block_table [B, width] int32; act_seq [B] int32, L >= s1. Output [T N, D] in
q_nope's dtype. Computed in float32.
Source: DeepSeek V3.2 (2025), sparse attention on the absorbed form of MLA.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pack_rows, pick_case
from golden.quantise import dequantise_groups
from golden.sparse_attention.selected import Size, attend, paged_inputs, select

_SIZES = {
    "smoke": Size((40, 7), 2, 4, 32, 8, topk=16, blocks=8, block_size=16, width=4),
    "p0": Size((1024,), 2, 128, 512, 64, topk=2048, blocks=8, block_size=128, width=8),
}
CASES = tuple(_SIZES)
SCALES = 4  # per key


def ds_v32_sparse_attention_antiquant_golden(
    q_nope: torch.Tensor,
    q_rope: torch.Tensor,
    nope_cache: torch.Tensor,
    topk_idx: torch.Tensor,
    block_table: torch.Tensor,
    act_seq: torch.Tensor,
    block_size: int = 128,
    scale: float = 576**-0.5,
) -> torch.Tensor:
    """Return O [T N, D] in q_nope's dtype."""
    rows, visible = select(topk_idx, block_table, act_seq, block_size)
    widths = [q_nope.shape[-1], 2 * q_rope.shape[-1], 4 * SCALES]
    values, rope, scales = nope_cache[rows].split(widths, dim=-1)
    keys = dequantise_groups(values, scales.contiguous().view(torch.float32))
    return attend(q_nope, q_rope, keys, rope.contiguous().view(torch.bfloat16), visible, scale).to(q_nope.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    rows = size.blocks * size.block_size
    values = draw.integers(-127, 128, rows, size.nope)
    rope, scales = draw.normal(rows, size.rope), draw.uniform(1e-3, 1e-2, rows, SCALES)
    packed = pack_rows(values, rope, scales, row_bytes=size.nope + 2 * size.rope + 4 * SCALES)
    return (), paged_inputs(size, device) | {"nope_cache": packed.view(torch.int8), "block_size": size.block_size}
