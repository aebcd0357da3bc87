"""Sliding-window attention over a paged cache with a sink (DeepSeek V4, window layers).

Formula, for the query at position p of a sequence (query s of its Lq is at p = L - Lq + s), keys being the values too:
    O = sum_j exp(q . k_j * scale) k_j / (sum_j exp(q . k_j * scale) + exp(sink)), j = p - window + 1 … p, per head

Shapes: q [T, N, D]; kv_cache [blocks * block_size, D]; block_table [B, width] int32, -1 where unused; seqused_kv [B]
int32; sinks [N] float32; cu_seqlens_q [B + 1] int32, cumulative from 0. Output [T, N, D] in q's dtype. Computed in
float32; scale defaults to D^-0.5.
Source: DeepSeek V4 attention, window of 128. Chosen: the mask follows from the positions; the kernel's interface has a
fixed boolean mask besides.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import owner, paged_rows, sink_softmax
from golden.inputs import Draw, pick_case, prefix_sums
from golden.inputs import block_table as make_block_table


class _Size(NamedTuple):
    q_lengths: tuple[int, ...]
    lengths: tuple[int, ...]
    heads: int
    dim: int
    window: int
    blocks: int
    block_size: int
    width: int


_SIZES = {
    "smoke": _Size((3, 1, 2), (40, 9, 2), 2, 16, window=16, blocks=8, block_size=8, width=5),
    "p0": _Size((2,), (1024,), 64, 512, window=128, blocks=8, block_size=128, width=8),
}
CASES = tuple(_SIZES)


def ds_v4_win_attention_golden(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seqused_kv: torch.Tensor,
    sinks: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    window: int = 128,
    block_size: int = 128,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [T, N, D] in q's dtype."""
    ends = cu_seqlens_q[1:].long()
    sequence = owner(ends, len(q))
    position = seqused_kv.long()[sequence] - (ends[sequence] - torch.arange(len(q), device=q.device))
    recent = position[:, None] + torch.arange(1 - window, 1, device=q.device)  # [T, window]
    keys = kv_cache[paged_rows(block_table[sequence], recent, block_size)].float()
    scores = torch.einsum("tnd,tkd->tnk", q.float(), keys) * (q.shape[-1] ** -0.5 if scale is None else scale)
    weights = sink_softmax(scores, (recent >= 0)[:, None], sinks[:, None])
    return torch.einsum("tnk,tkd->tnd", weights, keys).to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    lengths = torch.tensor(size.lengths, dtype=torch.int32, device=device)
    return (), {
        "q": draw.normal(sum(size.q_lengths), size.heads, size.dim),
        "kv_cache": draw.normal(size.blocks * size.block_size, size.dim),
        "block_table": make_block_table(lengths, size.block_size, size.blocks, size.width),
        "seqused_kv": lengths,
        "sinks": draw.normal(size.heads, dtype=torch.float32),
        "cu_seqlens_q": prefix_sums(torch.tensor(size.q_lengths, device=device)),
        "window": size.window,
        "block_size": size.block_size,
    }
