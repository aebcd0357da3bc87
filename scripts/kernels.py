"""When two launches are the same kernel."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from scripts.kernel_table import Coded, KernelTable


@dataclass(frozen=True)
class Kernel:
    """What makes two launches the same kernel."""

    op: str
    name: str
    core: str
    input_shapes: str

    def __str__(self) -> str:
        return f"{self.op} ({self.name}, {self.core}, shapes {self.input_shapes or 'unknown'})"


def kernel(table: KernelTable, row: int) -> Kernel:
    """The identity of one launch, without the numbers that graph-mode names count up."""
    op = table.op[row]
    name = stable_name(table.name[row] or "", op)
    return Kernel(op or name or "N/A", name, table.core[row] or "N/A", table.input_shapes[row] or "")


def stable_name(name: str, op: str | None) -> str:
    """`name` without the number that graph mode counts up per launch: `Conv2D7`, `trans_Cast_15`, `NonZero3_MemSet`.

    Where the op type is known, only a number right after it is one; `aclnn…` names never have it.
    """
    if name.startswith("aclnn"):
        return name
    stem = re.escape(op) if op and op != "MemSet" else r"\w*?[A-Za-z]"
    match = re.fullmatch(rf"((?:trans_)?{stem})_?\d+(_MemSet)?", name)
    return match[1] + (match[2] or "") if match else name


def kernel_codes(table: KernelTable, rows: np.ndarray) -> tuple[np.ndarray, list[Kernel]]:
    """(code per row, distinct kernels) of `rows`: one identity is built per distinct combination of cells."""
    cells = np.stack([column.codes[rows] for column in _identity(table)], axis=1)
    _, first, inverse = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    kernels = [kernel(table, rows[place]) for place in first]
    index: dict[Kernel, int] = {}
    codes = np.array([index.setdefault(name, len(index)) for name in kernels], np.int64)
    return codes[inverse.reshape(-1)] if len(rows) else np.empty(0, np.int64), list(index)


def _identity(table: KernelTable) -> tuple[Coded, ...]:
    return table.op, table.name, table.core, table.input_shapes


def multiset(table: KernelTable, rows: np.ndarray) -> Counter[Kernel]:
    if not len(rows):
        return Counter()
    codes, kernels = kernel_codes(table, rows)
    return Counter(dict(zip(kernels, np.bincount(codes).tolist(), strict=True)))
