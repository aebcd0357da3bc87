"""Paged grouped-query decode attention over fp8 keys and values with one scale per kv head and channel.

Formula: k = key * key_antiquant_scale,   v = value * value_antiquant_scale,   O = softmax(q k^T * scale) v; query i of
the s1 last tokens of a sequence of length L sees its first L - (s1 - 1 - i) tokens.

Shapes: query [B, Hq, s1, D]; key, value [blocks, Hkv, block_size, D] float8_e4m3fn; key_antiquant_scale,
value_antiquant_scale [Hkv, D]; block_table [B, width] int32, -1 beyond the pages in use; kv_actual_seqs [B] int32,
s1 <= length. Output [B, Hq, s1, D] in query's dtype. Computed in float32; scale defaults to D^-0.5.
Source: interface of the Ascend operator IncreFlashAttention with 8-bit caches. Chosen: causal among new tokens.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

import torch

from golden.dense_attention.paged import Size, attend_tail, gather_heads_first, table_and_lengths
from golden.inputs import Draw, pick_case

_SIZES = {
    "smoke": Size((60, 2, 33), 2, 4, 2, 16, blocks=12, block_size=16, width=4),
    "p0": Size((2048,), 1, 8, 1, 128, blocks=16, block_size=128, width=16),
}
CASES = tuple(_SIZES)


def incre_flash_attention_gqa_antiquant_golden(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    key_antiquant_scale: torch.Tensor,
    value_antiquant_scale: torch.Tensor,
    block_table: torch.Tensor,
    kv_actual_seqs: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [B, Hq, s1, D] in query's dtype."""
    keys = gather_heads_first(key, block_table).float() * key_antiquant_scale.float()[:, None]
    values = gather_heads_first(value, block_table).float() * value_antiquant_scale.float()[:, None]
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return attend_tail(query.transpose(1, 2), keys, values, kv_actual_seqs, scale).transpose(1, 2).to(query.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    table, lengths = table_and_lengths(size, device)
    cache = (size.blocks, size.kv_heads, size.block_size, size.dim)
    return (), {
        "query": draw.normal(len(lengths), size.heads, size.new, size.dim),
        "key": draw.normal(*cache, scale=64.0, dtype=torch.float8_e4m3fn),
        "value": draw.normal(*cache, scale=64.0, dtype=torch.float8_e4m3fn),
        "key_antiquant_scale": draw.uniform(0.01, 0.02, size.kv_heads, size.dim, dtype=torch.bfloat16),
        "value_antiquant_scale": draw.uniform(0.01, 0.02, size.kv_heads, size.dim, dtype=torch.bfloat16),
        "block_table": table,
        "kv_actual_seqs": lengths,
    }
