"""The same sums from files that the profiler made by another way than kernel_details.csv.

`op_statistic*.csv` has count and total per op type and core over the whole capture, communication left out;
`step_trace_time.csv` has the computing time per step. Either can disagree, and then no number of the case is believed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np

from scripts.artifacts import CrossCheck
from scripts.assignment import is_communication
from scripts.errors import CaseFailure
from scripts.kernel_table import KernelTable, microseconds
from scripts.statistics import plain
from scripts.status import Status

RELATIVE_TOLERANCE = Decimal("0.001")
ROUNDING_US = Decimal("0.01")  # per launch: statistics are written with two or three decimals

ADVICE = (
    "Rows of the capture were lost, doubled or changed after the profiler wrote it. Profile again, and do not edit "
    "the files of a capture."
)


@dataclass(frozen=True)
class _Sum:
    count: int
    total_us: Decimal


def check(table: KernelTable) -> CrossCheck:
    """Compare every row of `table`, communication apart, with what lies beside its file.

    Raises CaseFailure(INCOMPLETE) naming what differs, when it does.
    """
    rows = ~table.core.where(is_communication)
    ours = table.total_us(rows)
    folder = table.paths[0].parent
    statistics = sorted(folder.glob("op_statistic*.csv"))
    if len(statistics) == 1 and table.op.known.any():
        return _against_statistics(table, rows, ours, statistics[0])
    trace = folder / "step_trace_time.csv"
    if trace.is_file():
        return _against_trace(table, rows, trace)
    return CrossCheck("", None, ours, None, "There is no op_statistic.csv or step_trace_time.csv beside the capture.")


def _against_statistics(table: KernelTable, rows: np.ndarray, ours: Decimal, path: Path) -> CrossCheck:
    mine, theirs = _by_type(table, rows), _statistics(path, _devices(table))
    differences = [
        f"{op} on {core}: {_words(mine.get((op, core)))} in {table.paths[0].name}, "
        f"{_words(theirs.get((op, core)))} in {path.name}"
        for op, core in _largest_first(mine, theirs)
        if not _agree(mine.get((op, core)), theirs.get((op, core)))
    ]
    total = sum((entry.total_us for entry in theirs.values()), Decimal())
    if differences:
        raise _disagreement(path, ours, total, differences)
    detail = f"Count and total of {len(mine)} op types agree over all {int(rows.sum())} rows."
    return CrossCheck(path.name, True, ours, total, detail)


def _by_type(table: KernelTable, rows: np.ndarray) -> dict[tuple[str, str], _Sum]:
    """Count and total of `rows` per (op type, core)."""
    width = len(table.core.values) + 1
    keys = (table.op.codes[rows].astype(np.int64) + 1) * width + table.core.codes[rows] + 1
    found, inverse = np.unique(keys, return_inverse=True)
    counts = np.bincount(inverse, minlength=len(found))
    totals = np.zeros(len(found), np.int64)
    np.add.at(totals, inverse, table.duration_ps[rows])
    ops, cores = ("N/A", *table.op.values), ("N/A", *table.core.values)
    return {
        (ops[key // width], cores[key % width]): _Sum(int(count), microseconds(int(total)))
        for key, count, total in zip(found, counts, totals, strict=True)
    }


def _statistics(path: Path, devices: set[str]) -> dict[tuple[str, str], _Sum]:
    """op_statistic.csv per (op type, core), of the devices that the capture has."""
    sums: dict[tuple[str, str], _Sum] = {}
    for line, row in _rows(path):
        try:
            key = row["OP Type"], row.get("Core Type") or "N/A"
            if is_communication(key[1]) or (devices and row.get("Device_id", "") not in ("", *devices)):
                continue
            before = sums.get(key, _Sum(0, Decimal()))
            total = before.total_us + Decimal(row["Total Time(us)"].strip())
            sums[key] = _Sum(before.count + int(row["Count"]), total)
        except (KeyError, ValueError, InvalidOperation) as error:
            raise _unreadable(path, line, error) from error
    return sums


def _against_trace(table: KernelTable, rows: np.ndarray, path: Path) -> CrossCheck:
    """`Computing` of all steps against the rows in a step; with several streams it is the time any kernel ran."""
    counted = np.flatnonzero(rows & table.step_id.known) if table.step_id.known.any() else np.flatnonzero(rows)
    mine = table.total_us(counted)
    theirs = Decimal()
    for line, row in _rows(path):
        try:
            if row.get("Device_id", "") in ("", *_devices(table)):
                theirs += Decimal(row["Computing"].strip())
        except (KeyError, InvalidOperation) as error:
            raise _unreadable(path, line, error) from error
    busy = table.span_and_busy_us(counted)[1]
    if not any(_agree(_Sum(len(counted), value), _Sum(len(counted), theirs)) for value in (mine, busy)):
        raise _disagreement(
            path, mine, plain(theirs), [f"computing time {plain(theirs)} us, rows in its steps {mine} us"]
        )
    return CrossCheck(path.name, True, mine, plain(theirs), f"Computing time agrees over {len(counted)} rows.")


def _agree(mine: _Sum | None, theirs: _Sum | None) -> bool:
    if mine is None or theirs is None or mine.count != theirs.count:
        return False
    tolerance = max(RELATIVE_TOLERANCE * theirs.total_us, ROUNDING_US * theirs.count)
    return abs(mine.total_us - theirs.total_us) <= tolerance


def _devices(table: KernelTable) -> set[str]:
    return set(table.device.values)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        for row in reader:
            yield reader.line_num, row


def _largest_first(mine: dict[tuple[str, str], _Sum], theirs: dict[tuple[str, str], _Sum]) -> list[tuple[str, str]]:
    """The keys of both, those first that differ most in time."""
    none = _Sum(0, Decimal())
    keys = sorted(mine.keys() | theirs.keys())
    return sorted(keys, key=lambda key: -abs(mine.get(key, none).total_us - theirs.get(key, none).total_us))


def _words(entry: _Sum | None) -> str:
    return f"{entry.count} x, {entry.total_us} us" if entry else "none"


def _disagreement(path: Path, ours: Decimal, theirs: Decimal, differences: list[str]) -> CaseFailure:
    shown = "; ".join(differences[:8]) + (f"; and {len(differences) - 8} more" if len(differences) > 8 else "")
    return CaseFailure(
        Status.INCOMPLETE,
        f"{path} does not agree with the kernels of the capture ({theirs} us against {ours} us): {shown}.",
        ADVICE,
    )


def _unreadable(path: Path, line: int, error: Exception) -> CaseFailure:
    message = f"{path}, line {line} cannot be read: {type(error).__name__} {error}."
    return CaseFailure(Status.INCOMPLETE, message, ADVICE)
