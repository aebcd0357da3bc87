"""Copy of a part of every sequence from paged caches to contiguous keys and values.

Formula: with n_b = seq_lens[b + 1] - seq_lens[b], row j < n_b of sequence b is the token at position seq_offset[b] + j.

Shapes: key_cache [blocks, block_size, N, Dk], value_cache [blocks, block_size, N, Dv]; block_tables [B, width] int32;
seq_lens [B + 1] int32, cumulative from 0; seq_offset [B] int32, multiples of block_size, seq_offset + n_b at most
width * block_size. Outputs: key [total, N, Dk] and value [total, N, Dv] in the caches' dtypes, total = seq_lens[B],
which is read once and synchronises.
Source: interface of the Ascend operator GatherPaKvCache.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import owner, paged_rows
from golden.inputs import Draw, block_table, pick_case, prefix_sums


class _Size(NamedTuple):
    rows: tuple[int, ...]
    offsets: tuple[int, ...]
    key_dim: int
    value_dim: int
    blocks: int
    block_size: int
    width: int


_SIZES = {
    "smoke": _Size((5, 1, 0, 20), (16, 0, 8, 8), 32, 16, 24, 8, 4),
    "p0": _Size((6, 14, 1, 29), (0, 128, 640, 256), 512, 64, 5513, 128, 8),
}
CASES = tuple(_SIZES)


def gather_pa_kv_cache_golden(
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    seq_offset: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return key [total, N, Dk] and value [total, N, Dv]."""
    total = int(seq_lens[-1])
    sequence = owner(seq_lens[1:], total)
    step = torch.arange(total, device=seq_lens.device) - seq_lens.long()[sequence]
    position = seq_offset.long()[sequence] + step
    rows = paged_rows(block_tables[sequence], position[:, None], key_cache.shape[1])[:, 0]
    return key_cache.flatten(0, 1)[rows], value_cache.flatten(0, 1)[rows]


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    rows, offsets = (torch.tensor(x, dtype=torch.int32, device=device) for x in (size.rows, size.offsets))
    return (), {
        "key_cache": draw.normal(size.blocks, size.block_size, 1, size.key_dim),
        "value_cache": draw.normal(size.blocks, size.block_size, 1, size.value_dim),
        "block_tables": block_table(rows + offsets, size.block_size, size.blocks, size.width, pad=False),
        "seq_lens": prefix_sums(rows),
        "seq_offset": offsets,
    }
