"""How the golden's kernels used the pipes of an Ascend core, from the PipeUtilization columns.

The share of a pipe is its busy time over the time of the cores that have it, both summed over every launch of an op.
Atlas A2/A3 (and A5, which adds MTE3 to the cube side) count cube and vector cores apart, `aic_*` in `aicore_time(us)`
and `aiv_*` in `aiv_time(us)`; older chips have one kind of core and no prefix. Pipes overlap, and so do their shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import numpy as np

from scripts.artifacts import PipeRow
from scripts.kernel_table import KernelTable
from scripts.statistics import plain

# Below this share no pipe is busy for even half of the time: latency, dependencies or launch overhead dominate.
BOUND_FROM = 0.5
UNITS = {  # column's word -> name in PipeRow.shares
    "mac": "cube",
    "vec": "vector",
    "scalar": "scalar",
    "mte1": "mte1",
    "mte2": "mte2",
    "mte3": "mte3",
    "fixpipe": "fixpipe",
}
CORE_TIMES = {"aic_": "aicore_time(us)", "aiv_": "aiv_time(us)", "": "aicore_time(us)"}


def pipe_row(
    table: KernelTable, op: str, core: str, launches: np.ndarray, central: np.ndarray, divisor: int
) -> PipeRow:
    """One op's pipes over all its `launches`; its waiting time over `central`, rows of `divisor` iterations."""
    shares = dict(_shares(table, launches))
    largest = max(shares, key=shares.__getitem__, default="unknown")
    return PipeRow(
        op=op,
        core=core,
        blocks=_blocks(table, launches),
        shares=shares,
        bound=largest if shares.get(largest, 0.0) >= BOUND_FROM else "unknown",
        wait_us=_wait_us(table, central) / divisor,
    )


def _shares(table: KernelTable, rows: np.ndarray) -> Iterator[tuple[str, float]]:
    own = {name: column[rows] for name, column in table.pmu.items()}
    unknown = {name: np.isnan(column) for name, column in own.items()}
    for word, unit in UNITS.items():
        busy = whole = 0.0
        for prefix, cores in CORE_TIMES.items():
            pipe = f"{prefix}{word}_time(us)"
            if pipe in own and cores in own:
                counted = ~(unknown[pipe] | unknown[cores])
                busy += float(own[pipe].sum(where=counted))
                whole += float(own[cores].sum(where=counted))
        if whole > 0:
            yield unit, busy / whole


def _blocks(table: KernelTable, rows: np.ndarray) -> int | None:
    """Most cores that one launch took; None where it is not said (0 stands for that at Level0)."""
    found = [table.blocks.values[code] for code in np.unique(table.blocks.codes[rows]) if code >= 0]
    return max(found, default=0) or None


def _wait_us(table: KernelTable, rows: np.ndarray) -> Decimal:
    """Sum of the known waits; they are doubles of the profiler's, so nanoseconds are all they are good for."""
    total = 0.0 if table.wait_us is None else float(np.nansum(table.wait_us[rows]))
    return plain(Decimal(f"{total:.3f}"))
