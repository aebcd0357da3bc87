"""Writes keys and values of new tokens to their slots of paged caches, in place.

Formula: row t goes to page slot_mapping[t] / block_size, place slot_mapping[t] mod block_size; -1 writes nothing.

Shapes: key, value [T, N, D]; key_cache, value_cache [blocks, block_size, N, D]; slot_mapping [T] int32, unique where
not -1.
Outputs: the caches, which are the arguments.
Source: interface of the Ascend operator ScatterPaKvCache.
"""

from __future__ import annotations

import torch

from golden.blocks import write_slots
from golden.inputs import Draw, pick_case, unique_slots

# tokens, heads, channels, pages, page size
_SIZES = {"smoke": (37, 2, 16, 8, 8), "p0": (2633, 2, 256, 32, 128)}
CASES = tuple(_SIZES)


def scatter_pa_kv_cache_golden(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the caches, updated."""
    write_slots(key_cache, slot_mapping, key)
    write_slots(value_cache, slot_mapping, value)
    return key_cache, value_cache


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The last token is skipped."""
    tokens, heads, dim, blocks, block_size = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        "key": draw.normal(tokens, heads, dim),
        "value": draw.normal(tokens, heads, dim),
        "key_cache": draw.zeros(blocks, block_size, heads, dim),
        "value_cache": draw.zeros(blocks, block_size, heads, dim),
        "slot_mapping": unique_slots(tokens, blocks * block_size, device, skipped=1).to(torch.int32),
    }
