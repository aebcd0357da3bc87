"""Building blocks for `_make_inputs` factories: related tensors that independent random draws cannot give.

Every function draws from torch's global generator, which the caller seeds, and returns new tensors on `device`.
Index tensors are int32 unless stated otherwise; `-1` marks an unused entry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch

Device = torch.device | str
Size = TypeVar("Size")


def pick_case(sizes: Mapping[str, Size], case: str) -> Size:
    """The sizes of `case`; ValueError naming the known cases when there is none of that name."""
    if case not in sizes:
        raise ValueError(f"The factory knows no case {case!r}. Known cases: {', '.join(sizes)}.")
    return sizes[case]


# --- values ---------------------------------------------------------------------------------------------------------


class Draw:
    """Tensors of independent values on one device, bfloat16 unless another dtype is asked for.

    fp8 values are drawn in float32 and cast, because these types have no generator of their own; others are drawn as
    they are, which keeps a large case within its own size.
    """

    def __init__(self, device: Device, dtype: torch.dtype = torch.bfloat16) -> None:
        self.device = device
        self.dtype = dtype

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype | None = None) -> torch.Tensor:
        """`scale` times standard normal values."""
        dtype = dtype or self.dtype
        drawn = torch.float32 if dtype.itemsize == 1 else dtype
        return torch.randn(shape, dtype=drawn, device=self.device).mul_(scale).to(dtype)

    def weight(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Weights [..., K, N], scaled by 1 / sqrt(K), so that a product keeps the size of its input."""
        return self.normal(*shape, scale=shape[-2] ** -0.5, dtype=dtype)

    def uniform(self, low: float, high: float, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Values in [low, high)."""
        return (torch.rand(shape, device=self.device) * (high - low) + low).to(dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
        """Integers in [low, high)."""
        return torch.randint(low, high, shape, device=self.device).to(dtype)

    def e8m0(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """Power-of-two scales 2^e with e in [low, high), float8_e8m0fnu."""
        exponents = torch.randint(low, high, shape, device=self.device)
        return torch.exp2(exponents.float()).to(torch.float8_e8m0fnu)

    def ones(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Ones: the usual gain of a normalisation."""
        return torch.ones(shape, dtype=dtype or self.dtype, device=self.device)

    def zeros(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Zeros: an empty cache or a bias."""
        return torch.zeros(shape, dtype=dtype or self.dtype, device=self.device)


# --- lengths --------------------------------------------------------------------------------------------------------


def ragged_lengths(batch: int, low: int, high: int, device: Device) -> torch.Tensor:
    """[batch] lengths in [low, high]; with two rows or more, both ends occur."""
    lengths = torch.randint(low, high + 1, (batch,), device=device)
    if batch > 1:
        lengths[0], lengths[-1] = high, low
    return lengths.to(torch.int32)


def prefix_sums(lengths: torch.Tensor, leading_zero: bool = True) -> torch.Tensor:
    """Cumulative lengths: [batch + 1] from 0, or [batch] without the leading 0."""
    sums = torch.cumsum(lengths, 0)
    if leading_zero:
        sums = torch.cat([sums.new_zeros(1), sums])
    return sums.to(torch.int32)


def group_counts(total: int, groups: int, device: Device, multiple: int = 1) -> torch.Tensor:
    """[groups] int64 counts that are multiples of `multiple` and sum to `total`; first and last group are empty if
    there are more than two groups."""
    units, rest = divmod(total, multiple)
    if rest:
        raise ValueError(f"total {total} is no multiple of {multiple}.")
    first, last = (1, groups - 1) if groups > 2 else (0, groups)
    owner = torch.randint(first, last, (units,), device=device)
    return torch.bincount(owner, minlength=groups) * multiple


# --- paged caches ---------------------------------------------------------------------------------------------------


def pages(length: int, block_size: int) -> int:
    """Pages that `length` tokens occupy."""
    return math.ceil(length / block_size)


def block_table(
    lengths: torch.Tensor,
    block_size: int,
    num_blocks: int,
    width: int,
    first_block: int = 0,
    pad: bool = True,
) -> torch.Tensor:
    """[batch, width] page ids in [first_block, num_blocks), distinct over the whole batch.

    With `pad`, entries from ceil(length / block_size) on are -1 and no page is spent on them; without, all entries are
    pages. ValueError when a length needs more than `width` pages, or the batch needs more pages than there are.
    """
    device = lengths.device
    used = (lengths.long() + block_size - 1) // block_size
    if int(used.max()) > width:
        raise ValueError(
            f"A length needs {int(used.max())} pages of {block_size} tokens; the table has {width} columns."
        )
    columns = torch.arange(width, device=device)
    needed = columns < used[:, None] if pad else torch.ones(len(lengths), width, dtype=torch.bool, device=device)
    count, available = int(needed.sum()), num_blocks - first_block
    if count > available:
        raise ValueError(f"The block table needs {count} distinct pages; the cache has {available}.")
    table = torch.full((len(lengths), width), -1, dtype=torch.int32, device=device)
    table[needed] = (torch.randperm(available, device=device)[:count] + first_block).to(torch.int32)
    return table


def slots_of(table: torch.Tensor, positions: torch.Tensor, block_size: int) -> torch.Tensor:
    """Flat cache slots of token `positions` [batch, n] (int64): table[b, p // bs] * bs + p % bs."""
    page = table.long().gather(1, positions.long() // block_size)
    return page * block_size + positions.long() % block_size


def unique_slots(count: int, slots: int, device: Device, skipped: int = 0) -> torch.Tensor:
    """[count] int64 distinct slots in [0, slots) in random order; the last `skipped` are -1 (no write)."""
    chosen = torch.randperm(slots, device=device)[:count]
    if len(chosen) < count:
        raise ValueError(f"{count} distinct slots asked of a cache with {slots}.")
    chosen[count - skipped :] = -1
    return chosen


def pack_rows(values: torch.Tensor, rope: torch.Tensor, scales: torch.Tensor, row_bytes: int) -> torch.Tensor:
    """uint8 [n, row_bytes]: the bytes of 8-bit values, rope and scales side by side, zero bytes behind them.

    Packing real numbers, and not drawing bytes, keeps NaN and infinity out of the rows.
    """
    parts = [part.contiguous().view(torch.uint8) for part in (values, rope, scales)]
    packed = torch.cat(parts, dim=-1)
    return torch.nn.functional.pad(packed, (0, row_bytes - packed.shape[-1]))


# --- indices --------------------------------------------------------------------------------------------------------


def topk_ids(valid: torch.Tensor, k: int) -> torch.Tensor:
    """[*valid.shape, k] distinct ids below `valid`, in random order, then -1 from min(valid, k) on."""
    limit = int(valid.max())
    columns = torch.arange(max(limit, k), device=valid.device)
    keys = torch.rand(*valid.shape, len(columns), device=valid.device)
    keys = keys.masked_fill(columns >= valid[..., None], 2.0)  # ids out of range sort behind all others
    ids = keys.argsort(-1)[..., :k]
    return ids.masked_fill(torch.arange(k, device=valid.device) >= valid[..., None], -1).to(torch.int32)


def distinct_ids(rows: int, k: int, high: int, device: Device, low: int = 0) -> torch.Tensor:
    """[rows, k] ids in [low, high), distinct within each row: expert ids of a token, state slots."""
    if k > high - low:
        raise ValueError(f"{k} distinct ids asked of the range [{low}, {high}).")
    return (torch.rand(rows, high - low, device=device).argsort(-1)[:, :k] + low).to(torch.int32)


def permutation(n: int, device: Device) -> torch.Tensor:
    """[n] int32 permutation of 0 … n - 1."""
    return torch.randperm(n, device=device).to(torch.int32)


def class_targets(rows: int, classes: int, device: Device, ignore_index: int | None = None) -> torch.Tensor:
    """[rows] int64 classes in [0, classes); every eighth row is `ignore_index` when that is given."""
    targets = torch.randint(0, classes, (rows,), device=device)
    if ignore_index is not None:
        targets[::8] = ignore_index
    return targets


# --- rotary tables and masks ----------------------------------------------------------------------------------------


def rope_tables(
    positions: torch.Tensor, dim: int, dtype: torch.dtype, theta: float = 10000.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos, sin [*positions.shape, dim] of position * theta^(-2i/dim); the last dim is two equal halves."""
    frequency = theta ** (-torch.arange(0, dim, 2, device=positions.device, dtype=torch.float32) / dim)
    angle = positions.float()[..., None] * frequency
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def block_mask(shape: Sequence[int], density: float, device: Device) -> torch.Tensor:
    """Bool mask, each entry True with probability `density`; every row of the last dim has at least one True."""
    mask = torch.rand(tuple(shape), device=device) < density
    kept = torch.randint(0, shape[-1], tuple(shape[:-1]), device=device)
    return mask.scatter(-1, kept[..., None], True)


def strictly_lower(shape: Sequence[int], scale: float, device: Device) -> torch.Tensor:
    """float32 matrices [..., n, n], zero on and above the diagonal, with entries of size `scale` below it."""
    return (torch.randn(tuple(shape), device=device) * scale).tril(-1)
