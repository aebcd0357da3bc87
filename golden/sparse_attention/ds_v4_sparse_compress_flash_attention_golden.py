"""Attention over a window of recent tokens and selected compressed ones, with a sink (DeepSeek V4, sparse layers).

Formula, for the query at position p of a sequence (query s of its Lq is at p = L - Lq + s): its keys, which are its
values too, are the tokens p - window + 1 … p and the compressed rows topk_indices names;
    O = sum_j exp(q . k_j * scale) k_j / (sum_j exp(q . k_j * scale) + exp(sink)), per head

Shapes: q [T, N, D]; compress_kv [cmp blocks * block_size, D]; origin_kv [blocks * block_size, D]; topk_indices [T,
topk] int32, distinct, below cmp_actual_seq, -1 where unused; cmp_block_table, origin_block_table [B, width] int32, -1
where unused; actual_seq_q [B + 1] int32, cumulative from 0; cmp_actual_seq, origin_actual_seq [B] int32, plain lengths;
attn_sink [N] float32. Output [T, N, D] in q's dtype. Computed in float32; scale = D^-0.5.
Source: DeepSeek V4 attention (one compressed row per 4 tokens, top 512 of them, window of 128); the P0 case is small.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import owner, paged_rows, sink_softmax
from golden.inputs import Draw, block_table, pick_case, prefix_sums, topk_ids


class _Size(NamedTuple):
    q_lengths: tuple[int, ...]
    lengths: tuple[int, ...]
    heads: int
    dim: int
    topk: int
    window: int
    block_size: int
    ratio: int
    cmp_blocks: int
    cmp_width: int
    blocks: int
    width: int


_SIZES = {
    "smoke": _Size((3, 1), (70, 9), 2, 16, 6, 16, 8, 4, cmp_blocks=6, cmp_width=4, blocks=16, width=9),
    "p0": _Size((4, 4), (128, 256), 4, 64, 32, 64, 32, 32, cmp_blocks=8, cmp_width=4, blocks=16, width=8),
}
CASES = tuple(_SIZES)


def ds_v4_sparse_compress_flash_attention_golden(
    q: torch.Tensor,
    compress_kv: torch.Tensor,
    origin_kv: torch.Tensor,
    topk_indices: torch.Tensor,
    cmp_block_table: torch.Tensor,
    actual_seq_q: torch.Tensor,
    cmp_actual_seq: torch.Tensor,
    origin_block_table: torch.Tensor,
    origin_actual_seq: torch.Tensor,
    attn_sink: torch.Tensor,
    window: int = 64,
    block_size: int = 32,
) -> torch.Tensor:
    """Return O [T, N, D] in q's dtype."""
    tokens = torch.arange(len(q), device=q.device)
    ends = actual_seq_q[1:].long()
    sequence = owner(ends, len(q))
    position = origin_actual_seq.long()[sequence] - (ends[sequence] - tokens)
    recent = position[:, None] + torch.arange(1 - window, 1, device=q.device)  # [T, window]
    recent_keys = origin_kv[paged_rows(origin_block_table[sequence], recent, block_size)]
    chosen_keys = compress_kv[paged_rows(cmp_block_table[sequence], topk_indices, block_size)]
    keys = torch.cat([recent_keys, chosen_keys], dim=1).float()  # [T, window + topk, D]
    chosen = (topk_indices >= 0) & (topk_indices < cmp_actual_seq[sequence][:, None])
    scores = torch.einsum("tnd,tkd->tnk", q.float(), keys) * q.shape[-1] ** -0.5
    weights = sink_softmax(scores, torch.cat([recent >= 0, chosen], dim=1)[:, None], attn_sink[:, None])
    return torch.einsum("tnk,tkd->tnd", weights, keys).to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """A query selects only compressed rows whose tokens all lie before it or at it."""
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    lengths = torch.tensor(size.lengths, dtype=torch.int32, device=device)
    compressed = lengths // size.ratio
    seen = torch.cat([torch.arange(k - q + 1, k + 1, device=device) for q, k in zip(*size[:2], strict=True)])
    return (), {
        "q": draw.normal(sum(size.q_lengths), size.heads, size.dim),
        "compress_kv": draw.normal(size.cmp_blocks * size.block_size, size.dim),
        "origin_kv": draw.normal(size.blocks * size.block_size, size.dim),
        "topk_indices": topk_ids(seen // size.ratio, size.topk),
        "cmp_block_table": block_table(compressed, size.block_size, size.cmp_blocks, size.cmp_width),
        "actual_seq_q": prefix_sums(torch.tensor(size.q_lengths, device=device)),
        "cmp_actual_seq": compressed,
        "origin_block_table": block_table(lengths, size.block_size, size.blocks, size.width),
        "origin_actual_seq": lengths,
        "attn_sink": draw.normal(size.heads, dtype=torch.float32),
        "window": size.window,
        "block_size": size.block_size,
    }
