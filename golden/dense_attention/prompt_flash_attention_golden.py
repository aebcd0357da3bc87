"""Paged grouped-query attention of several new tokens per sequence, causal among them.

Formula: as incre_flash_attention; query i of the s1 last tokens of a sequence of length L sees its first L - (s1 - 1 -
i) tokens.

Shapes: q [B s1, Hq, D]; key_cache, value_cache [blocks, Hkv, block_size, D]; block_table [B, width] int32, -1 beyond
the pages in use; kv_actual_seqs [B] int32, s1 <= length <= width * block_size. Output [B s1, Hq, D] in q's dtype.
Computed in float32; scale defaults to D^-0.5.
Source: interface of the Ascend operator PromptFlashAttention with paged caches.
"""

from __future__ import annotations

import torch

from golden.dense_attention.paged import Size, attend_tail, gather_heads_first, table_and_lengths
from golden.inputs import Draw, pick_case

_SIZES = {
    "smoke": Size((60, 3, 33), 3, 4, 2, 16, blocks=12, block_size=16, width=4),
    "p0": Size((4096,), 4, 12, 1, 128, blocks=32, block_size=128, width=32),
}
CASES = tuple(_SIZES)


def prompt_flash_attention_golden(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    kv_actual_seqs: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [B s1, Hq, D] in q's dtype."""
    keys, values = (gather_heads_first(cache, block_table) for cache in (key_cache, value_cache))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    query = q.unflatten(0, (len(kv_actual_seqs), -1))
    return attend_tail(query, keys, values, kv_actual_seqs, scale).flatten(0, 1).to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    table, lengths = table_and_lengths(size, device)
    cache = (size.blocks, size.kv_heads, size.block_size, size.dim)
    return (), {
        "q": draw.normal(len(lengths) * size.new, size.heads, size.dim),
        "key_cache": draw.normal(*cache),
        "value_cache": draw.normal(*cache),
        "block_table": table,
        "kv_actual_seqs": lengths,
    }
