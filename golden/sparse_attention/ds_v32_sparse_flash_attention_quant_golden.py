"""Sparse MLA decode over selected keys in paged int8 caches (DeepSeek V3.2).

Formula, for query s of the s1 new tokens of a sequence of length L, over its first min(L - s1 + 1 + s, topk)
selections:
    row = table[idx / block_size] block_size + idx mod block_size;   k = k_nope_i8 * k_scale, per group of channels
    O = softmax([q_nope | q_rope] . [k | k_rope] * scale) k

Shapes: q_nope [T N, D], q_rope [T N, Dr], T = B s1, heads of a token in neighbouring rows; k_nope [rows, D] int8,
k_rope [rows, Dr], k_scale [rows, G] float32, rows = blocks * block_size; topk_idx [T, topk] int32, distinct, -1 where
unused; block_table [B, width] int32; act_seq [B] int32, L >= s1. Output [T N, D] in q_nope's dtype. Computed in
float32.
Source: DeepSeek V3.2 (2025), sparse attention on the absorbed form of MLA; scale = 576^-0.5.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.quantise import dequantise_groups
from golden.sparse_attention.selected import Size, attend, paged_inputs, select

_SIZES = {
    "smoke": Size((40, 7), 2, 4, 32, 8, topk=16, blocks=8, block_size=16, width=4),
    "p0": Size((512,), 2, 128, 512, 64, topk=2048, blocks=4, block_size=128, width=4),
}
CASES = tuple(_SIZES)


def ds_v32_sparse_flash_attention_quant_golden(
    q_nope: torch.Tensor,
    q_rope: torch.Tensor,
    k_nope: torch.Tensor,
    k_rope: torch.Tensor,
    k_scale: torch.Tensor,
    topk_idx: torch.Tensor,
    block_table: torch.Tensor,
    act_seq: torch.Tensor,
    block_size: int = 128,
    scale: float = 576**-0.5,
) -> torch.Tensor:
    """Return O [T N, D] in q_nope's dtype."""
    rows, visible = select(topk_idx, block_table, act_seq, block_size)
    keys = dequantise_groups(k_nope[rows], k_scale[rows])
    return attend(q_nope, q_rope, keys, k_rope[rows], visible, scale).to(q_nope.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    rows = size.blocks * size.block_size
    return (), paged_inputs(size, device) | {
        "k_nope": draw.integers(-127, 128, rows, size.nope),
        "k_rope": draw.normal(rows, size.rope),
        "k_scale": draw.uniform(1e-3, 1e-2, rows, 4),
        "block_size": size.block_size,
    }
