"""Paged grouped-query decode attention with fp8 operands throughout.

Formula: S = (q . k) * q_scale * k_scale * scale;   P = softmax(S);   (Pq, s) = fp8 per query and head (s = amax / 448);
    O = (Pq v) * s * v_scale

Shapes: q [B, Hq, D] float8_e4m3fn, q_scale [B, Hq, 1]; k_cache, v_cache [blocks, block_size, Hkv, D] float8_e4m3fn;
k_scale [blocks, block_size, Hkv, 1]; v_scale [B, Hkv, D]; block_table [B, width] int32, -1 beyond the pages in use;
kv_actual_seqs [B] int32, at least 1. Scales float32. Output [B, Hq, D] bfloat16. Computed in float32; scale defaults to
D^-0.5.
Source: 8-bit attention with scales per token for q and k and per channel for v. Chosen: P is normalised before it is
quantised.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

import torch

from golden.blocks import before, gather_pages, masked_softmax
from golden.dense_attention.paged import Size, table_and_lengths
from golden.inputs import Draw, pick_case
from golden.quantise import quantise_fp8

_SIZES = {
    "smoke": Size((60, 1, 33), 1, 4, 2, 16, blocks=12, block_size=16, width=4),
    "p0": Size((8192,) * 16, 1, 12, 1, 128, blocks=1024, block_size=128, width=64),
}
CASES = tuple(_SIZES)


def page_attention_quant_fp8_golden(
    q: torch.Tensor,
    q_scale: torch.Tensor,
    k_cache: torch.Tensor,
    k_scale: torch.Tensor,
    v_cache: torch.Tensor,
    v_scale: torch.Tensor,
    block_table: torch.Tensor,
    kv_actual_seqs: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [B, Hq, D] bfloat16."""
    # Bytes are gathered and reinterpreted, because not every device indexes fp8 tensors.
    keys, values = (
        gather_pages(cache.view(torch.uint8), block_table).view(cache.dtype).float().transpose(1, 2)
        for cache in (k_cache, v_cache)
    )  # [B, Hkv, S, D]
    key_scale = gather_pages(k_scale, block_table).permute(0, 2, 3, 1)  # [B, Hkv, 1, S]
    grouped, row_scale = (x.float().unflatten(1, (keys.shape[1], -1)) for x in (q, q_scale))  # [B, Hkv, G, …]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.matmul(grouped, keys.transpose(-2, -1)) * row_scale * key_scale * scale
    p = masked_softmax(scores, before(kv_actual_seqs, keys.shape[2])[:, None, None])
    quantised, p_scale = quantise_fp8(p)
    out = torch.matmul(quantised.float(), values) * p_scale * v_scale[:, :, None]
    return out.flatten(1, 2).to(torch.bfloat16)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device, torch.float8_e4m3fn)
    table, lengths = table_and_lengths(size, device)
    cache = (size.blocks, size.block_size, size.kv_heads)
    return (), {
        "q": draw.normal(len(lengths), size.heads, size.dim, scale=100.0),
        "q_scale": draw.uniform(5e-3, 1e-2, len(lengths), size.heads, 1),
        "k_cache": draw.normal(*cache, size.dim, scale=100.0),
        "k_scale": draw.uniform(5e-3, 1e-2, *cache, 1),
        "v_cache": draw.normal(*cache, size.dim, scale=100.0),
        "v_scale": draw.uniform(5e-3, 1e-2, len(lengths), size.kv_heads, size.dim),
        "block_table": table,
        "kv_actual_seqs": lengths,
    }
