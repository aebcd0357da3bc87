"""Paged grouped-query attention of one new token per sequence, pages with the head before the token.

Formula: O[b, h] = softmax(q[b, h] . K_b^T * scale) V_b over the first kv_actual_seqs[b] tokens of sequence b, which lie
in pages block_table[b, 0], block_table[b, 1], … of the caches.

Shapes: q [B, Hq, D]; key_cache, value_cache [blocks, Hkv, block_size, D]; block_table [B, width] int32, -1 beyond the
pages in use; kv_actual_seqs [B] int32, 1 <= length <= width * block_size. Output [B, Hq, D] in q's dtype. Query head h
uses kv head h / (Hq / Hkv). Computed in float32; scale defaults to D^-0.5.
Source: interface of the Ascend operator IncreFlashAttention with paged caches.
"""

from __future__ import annotations

import torch

from golden.dense_attention.paged import Size, attend_tail, gather_heads_first, table_and_lengths
from golden.inputs import Draw, pick_case

_SIZES = {
    "smoke": Size((60, 1, 33), 1, 4, 2, 16, blocks=12, block_size=16, width=4),
    "b1_8k": Size((8192,), 1, 12, 1, 128, blocks=64, block_size=128, width=64),
    "b8_8k": Size((8192,) * 8, 1, 12, 1, 128, blocks=512, block_size=128, width=64),
}
CASES = tuple(_SIZES)


def incre_flash_attention_golden(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    kv_actual_seqs: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [B, Hq, D] in q's dtype."""
    keys, values = (gather_heads_first(cache, block_table) for cache in (key_cache, value_cache))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return attend_tail(q[:, None], keys, values, kv_actual_seqs, scale)[:, 0].to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    table, lengths = table_and_lengths(size, device)
    cache = (size.blocks, size.kv_heads, size.block_size, size.dim)
    return (), {
        "q": draw.normal(len(lengths), size.heads, size.dim),
        "key_cache": draw.normal(*cache),
        "value_cache": draw.normal(*cache),
        "block_table": table,
        "kv_actual_seqs": lengths,
    }
