"""Recognising the noise kernel: its op type together with the shape of its first input."""

from __future__ import annotations

import numpy as np

from scripts.artifacts import Noise
from scripts.kernel_table import KernelTable


def signature(table: KernelTable, noise: Noise) -> tuple[np.ndarray, str]:
    """(mask of the rows that look like the noise, caution for the report or "").

    Captures of a low profiler level have no types, or no shapes, in any row; there the kernel's name stands in for the
    type, and the shape cannot be asked for.
    """
    if not noise.types:
        return np.zeros(len(table), bool), ""
    without = []
    if table.op.known.any():
        found = table.op.where(lambda op: op in noise.types)
    else:
        found = table.name.where(lambda name: any(wanted in name for wanted in noise.types))
        without.append("op types")
    if table.input_shapes.known.any():
        found = found & table.input_shapes.where(lambda text: first_shape(text) == noise.shape)
    else:
        without.append("input shapes")
    if not without or not found.any():
        return found, ""
    by = "its kernel's name" if "op types" in without else "its op type"
    shape = "" if "input shapes" not in without else ", without its shape"
    return found, f"The capture has no {' and no '.join(without)}: the noise was recognised by {by}{shape}."


def first_shape(text: str) -> tuple[int, ...] | None:
    """Shape of the first input in an Input Shapes cell: "96,1024,1024;3" -> (96, 1024, 1024), "" -> ()."""
    first = text.split(";", 1)[0].strip()
    try:
        return tuple(int(size) for size in first.split(",")) if first else ()
    except ValueError:
        return None


def lookalikes(table: KernelTable, noise: Noise, rows: np.ndarray) -> str:
    """What among `rows` has the noise's shape, for a message."""
    same_shape = table.input_shapes.where(lambda text: first_shape(text) == noise.shape)
    types = sorted({str(table.op[row] or table.name[row]) for row in rows[same_shape[rows]]})
    return f"rows with its shape are of type {', '.join(types[:12])}" if types else "no row there has its shape"


def words(noise: Noise) -> str:
    """`ReduceMax of 96,1024,1024`."""
    return f"{' or '.join(noise.types)} of {','.join(map(str, noise.shape))}"
