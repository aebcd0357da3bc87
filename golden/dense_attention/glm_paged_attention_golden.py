"""Paged grouped-query attention of one new token per sequence (GLM-4.5 decode).

Formula: O[b, h] = softmax(q[b, h] . K_b^T * scale) V_b over the first actual_seqs[b] tokens of sequence b, which lie in
pages block_table[b, 0], block_table[b, 1], … of the caches.

Shapes: q [B, Hq, D]; k_cache, v_cache [blocks, block_size, Hkv, D]; block_table [B, width] int32, -1 beyond the pages
in use; actual_seqs [B] int32, 1 <= length <= width * block_size; output [B, Hq, D] in q's dtype. Hq is a multiple of
Hkv; query head h uses kv head h // (Hq / Hkv). Computed in float32; scale defaults to 1 / sqrt(D).
Source: GLM-4.5 attention configuration (12 query heads on 1 kv head per device, D 128, pages of 128 tokens).
"""

from __future__ import annotations

import torch

from golden.blocks import before, gather_pages, masked_softmax
from golden.inputs import Draw, pick_case, ragged_lengths
from golden.inputs import block_table as make_block_table

# batch, query heads, kv heads, head dim, pages, page size, table width, shortest and longest sequence
_SIZES = {
    "smoke": (3, 4, 2, 32, 32, 16, 8, 1, 100),
    "p0": (8, 12, 1, 128, 1024, 128, 128, 1, 16384),
}
CASES = tuple(_SIZES)


def glm_paged_attention_golden(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    actual_seqs: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [B, Hq, D] in q's dtype."""
    kv_heads = k_cache.shape[2]
    keys, values = (gather_pages(cache, block_table).float() for cache in (k_cache, v_cache))  # [B, S, Hkv, D]
    grouped = q.float().unflatten(1, (kv_heads, -1))  # [B, Hkv, G, D]
    scores = torch.einsum("bhgd,bshd->bhgs", grouped, keys) * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = masked_softmax(scores, before(actual_seqs, keys.shape[1])[:, None, None])
    return torch.einsum("bhgs,bshd->bhgd", weights, values).flatten(1, 2).to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    batch, heads, kv_heads, dim, blocks, block_size, width, shortest, longest = pick_case(_SIZES, case)
    lengths = ragged_lengths(batch, shortest, longest, device)
    draw = Draw(device)
    return (), {
        "q": draw.normal(batch, heads, dim),
        "k_cache": draw.normal(blocks, block_size, kv_heads, dim),
        "v_cache": draw.normal(blocks, block_size, kv_heads, dim),
        "block_table": make_block_table(lengths, block_size, blocks, width),
        "actual_seqs": lengths,
    }
