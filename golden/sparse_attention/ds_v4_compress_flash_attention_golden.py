"""Decode attention over a window of recent tokens and all compressed ones, with a sink (DeepSeek V4, dense layers).

Formula, for the query at position p of a sequence (query s of s1 is at p = L - s1 + s): its keys, which are its values
too, are the tokens p - window + 1 … p and the first (p + 1) / cmp_ratio compressed rows;
    O = sum_j exp(q . k_j * scale) k_j / (sum_j exp(q . k_j * scale) + exp(sink)), per head

Shapes: q [T, N, D], T = B s1; cmp_kv [cmp blocks, block_size, 1, D]; ori_kv [blocks, block_size, 1, D]; sinks [N]
float32; cmp_block_table, ori_block_table [B, width] int32, -1 where unused; seqused_kv [B] int32, L >= s1. Output
[T, N, D] in q's dtype. Computed in float32; scale = D^-0.5.
Source: DeepSeek V4 attention (one compressed row per 128 tokens, window of 128).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import before, gather_pages, paged_rows, sink_softmax
from golden.inputs import Draw, block_table, pages, pick_case


class _Size(NamedTuple):
    lengths: tuple[int, ...]
    new: int
    heads: int
    dim: int
    cmp_ratio: int
    window: int
    cmp_blocks: int
    blocks: int
    block_size: int
    width: int


_SIZES = {
    "smoke": _Size((104, 6), 2, 4, 32, cmp_ratio=8, window=16, cmp_blocks=4, blocks=12, block_size=16, width=8),
    "p0": _Size((1024,), 2, 64, 512, cmp_ratio=128, window=128, cmp_blocks=1, blocks=8, block_size=128, width=9),
}
CASES = tuple(_SIZES)


def ds_v4_compress_flash_attention_golden(
    q: torch.Tensor,
    cmp_kv: torch.Tensor,
    sinks: torch.Tensor,
    cmp_block_table: torch.Tensor,
    seqused_kv: torch.Tensor,
    ori_kv: torch.Tensor,
    ori_block_table: torch.Tensor,
    cmp_ratio: int = 128,
    window: int = 128,
) -> torch.Tensor:
    """Return O [T, N, D] in q's dtype."""
    new = len(q) // len(seqused_kv)
    position = (seqused_kv.long()[:, None] - new + torch.arange(new, device=q.device)).flatten()  # [T]
    recent = position[:, None] + torch.arange(1 - window, 1, device=q.device)  # [T, window]
    rows = paged_rows(ori_block_table.repeat_interleave(new, dim=0), recent, ori_kv.shape[1])
    recent_keys = ori_kv.flatten(0, 2)[rows]
    compressed = gather_pages(cmp_kv, cmp_block_table)[:, :, 0].repeat_interleave(new, dim=0)
    keys = torch.cat([recent_keys, compressed], dim=1).float()  # [T, window + compressed, D]
    visible = torch.cat([recent >= 0, before((position + 1) // cmp_ratio, compressed.shape[1])], dim=1)
    scores = torch.einsum("tnd,tkd->tnk", q.float(), keys) * q.shape[-1] ** -0.5
    weights = sink_softmax(scores, visible[:, None], sinks[:, None])
    return torch.einsum("tnk,tkd->tnd", weights, keys).to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    lengths = torch.tensor(size.lengths, dtype=torch.int32, device=device)
    cmp_width = max(1, pages(max(size.lengths) // size.cmp_ratio, size.block_size))
    return (), {
        "q": draw.normal(len(size.lengths) * size.new, size.heads, size.dim),
        "cmp_kv": draw.normal(size.cmp_blocks, size.block_size, 1, size.dim),
        "sinks": draw.normal(size.heads, dtype=torch.float32),
        "cmp_block_table": block_table(lengths // size.cmp_ratio, size.block_size, size.cmp_blocks, cmp_width),
        "seqused_kv": lengths,
        "ori_kv": draw.normal(size.blocks, size.block_size, 1, size.dim),
        "ori_block_table": block_table(lengths, size.block_size, size.blocks, size.width),
        "cmp_ratio": size.cmp_ratio,
        "window": size.window,
    }
