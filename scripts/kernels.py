"""When two launches are the same kernel."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from scripts.kernel_table import KernelTable

UNKNOWN = "N/A"  # as the profiler writes it


@dataclass(frozen=True)
class Kernel:
    """The identity of a launch: all that is compared between iterations and between runs."""

    op: str  # the name where the capture has no types
    name: str  # without a running number
    core: str
    input_shapes: str

    def __str__(self) -> str:
        return f"{self.op} ({self.name}, {self.core}, shapes {self.input_shapes or 'unknown'})"


@dataclass(frozen=True)
class Kernels:
    """The kernel of every row of a table: `kinds[codes[row]]`."""

    codes: np.ndarray  # int64, one per row
    kinds: tuple[Kernel, ...]  # distinct

    @classmethod
    def of(cls, table: KernelTable) -> Kernels:
        """Identify every row; one identity is built per distinct combination of cells."""
        key = np.zeros(len(table), np.int64)
        size = 1
        for column in (table.op, table.name, table.core, table.input_shapes):
            if size > 2**31:  # keeps the product within int64
                key = np.unique(key, return_inverse=True)[1].reshape(-1)
                size = len(table)
            key = key * (len(column.values) + 1) + column.codes + 1
            size *= len(column.values) + 1
        first, inverse = _distinct(key, size)
        index: dict[Kernel, int] = {}
        codes = [index.setdefault(kernel(table, row), len(index)) for row in first]
        return cls(np.array(codes, np.int64)[inverse], tuple(index))

    def __getitem__(self, row: int) -> Kernel:
        return self.kinds[self.codes[row]]

    def count(self, rows: np.ndarray) -> Counter[int]:
        """How often each kernel occurs in `rows`, by its code."""
        counts = np.bincount(self.codes[rows])
        return Counter({code: count for code, count in enumerate(counts.tolist()) if count})


def _distinct(key: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """First row of every distinct value of `key`, which are below `size`, and each row's index into those."""
    if size > 4 * len(key) + 1024:
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        return first, inverse.reshape(-1)
    first_row = np.full(size, -1)  # a table is cheaper than sorting
    first_row[key[::-1]] = np.arange(len(key) - 1, -1, -1)  # of equal indices the last one is kept
    present = first_row >= 0
    return first_row[present], (np.cumsum(present) - 1)[key]


def kernel(table: KernelTable, row: int) -> Kernel:
    """The identity of one row."""
    op = table.op[row]
    name = stable_name(table.name[row] or "", op)
    return Kernel(op or name or UNKNOWN, name or UNKNOWN, table.core[row] or UNKNOWN, table.input_shapes[row] or "")


def stable_name(name: str, op: str | None) -> str:
    """`name` without the number that graph mode counts up per launch: `Conv2D7`, `trans_Cast_15`, `NonZero3_MemSet`.

    Where the op type is known, only a number right after it is one; `aclnn…` names never have it.
    """
    if name.startswith("aclnn"):
        return name
    match = _numbered(None if op == "MemSet" else op).fullmatch(name)
    return match[1] + (match[2] or "") if match else name


@lru_cache(maxsize=1024)
def _numbered(op: str | None) -> re.Pattern[str]:
    stem = re.escape(op) if op else r"\w*?[A-Za-z]"
    return re.compile(rf"((?:trans_)?{stem})_?\d+(_MemSet)?")
