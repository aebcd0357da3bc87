"""Paged MLA decode attention in its absorbed form: the key's latent part is the value.

Formula: O = softmax((query . key + query_rope . key_rope) * scale) key; query i of the s1 last tokens of a sequence of
length L sees its first L - (s1 - 1 - i) tokens.

Shapes: query [B, s1, N, D], query_rope [B, s1, N, Dr]; key [blocks, 1, block_size, D], key_rope [blocks, 1, block_size,
Dr]; block_table [B, width] int32, -1 beyond the pages in use; kv_actual_seqs [B] int32, s1 <= length. Output [B, s1, N,
D] in query's dtype. Computed in float32; scale defaults to (D + Dr)^-0.5.
Source: DeepSeek V2 (2024), section 2.1. Chosen: the scale counts latent and rope channels (576), as the published
kernel does; a model would count the channels before the absorption.
"""

from __future__ import annotations

import torch

from golden.dense_attention.paged import Size, attend_tail, gather_heads_first, table_and_lengths
from golden.inputs import Draw, pick_case

_SIZES = {
    "smoke": (Size((60, 1, 33), 1, 4, 1, 16, blocks=12, block_size=16, width=4), 8),
    "b1_4k": (Size((4096,), 1, 128, 1, 512, blocks=32, block_size=128, width=32), 64),
    "b16_8k": (Size((8192,) * 16, 1, 128, 1, 512, blocks=1024, block_size=128, width=64), 64),
}
CASES = tuple(_SIZES)


def incre_flash_attention_mla_golden(
    query: torch.Tensor,
    query_rope: torch.Tensor,
    key: torch.Tensor,
    key_rope: torch.Tensor,
    block_table: torch.Tensor,
    kv_actual_seqs: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [B, s1, N, D] in query's dtype."""
    latent = gather_heads_first(key, block_table)
    keys = torch.cat([latent, gather_heads_first(key_rope, block_table)], dim=-1)
    full = torch.cat([query, query_rope], dim=-1)
    scale = full.shape[-1] ** -0.5 if scale is None else scale
    return attend_tail(full, keys, latent, kv_actual_seqs, scale).to(query.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size, rope = pick_case(_SIZES, case)
    draw = Draw(device)
    table, lengths = table_and_lengths(size, device)
    return (), {
        "query": draw.normal(len(lengths), size.new, size.heads, size.dim),
        "query_rope": draw.normal(len(lengths), size.new, size.heads, rope),
        "key": draw.normal(size.blocks, 1, size.block_size, size.dim),
        "key_rope": draw.normal(size.blocks, 1, size.block_size, rope),
        "block_table": table,
        "kv_actual_seqs": lengths,
    }
