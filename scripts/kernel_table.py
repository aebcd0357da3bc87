"""The kernels of one capture, column by column, from whichever file of it has them.

Text columns are kept as codes into their distinct values. Numbers are exact: durations are integer picoseconds
(10^-6 us), start times integer nanoseconds, because epoch microseconds with a fraction do not fit a float64. `N/A` and
an empty cell mean "unknown" (None), never 0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scripts.errors import CaseFailure
from scripts.statistics import plain
from scripts.status import Status

US_PER_PS = Decimal("0.000001")
UNKNOWN = ("", "N/A")


@dataclass(frozen=True)
class Coded:
    """One column of text or integers: `codes[row]` indexes `values`, -1 where the cell is unknown."""

    codes: np.ndarray  # int32, one per row
    values: tuple[Any, ...]  # distinct

    def __getitem__(self, row: int) -> Any:
        code = self.codes[row]
        return None if code < 0 else self.values[code]

    def where(self, predicate: Callable[[Any], bool]) -> np.ndarray:
        """Bool per row: `predicate(value)`, evaluated once per distinct value; False where unknown."""
        # one entry more, for code -1, which indexes from the end
        return np.fromiter((*map(predicate, self.values), False), bool, len(self.values) + 1)[self.codes]

    @property
    def known(self) -> np.ndarray:
        """Bool per row: the cell is not unknown."""
        return self.codes >= 0

    @classmethod
    def of(cls, cells: Iterable[Any]) -> Coded:
        """Code `cells`, in which None is unknown."""
        index: dict[Any, int] = {}
        codes = [-1 if cell is None else index.setdefault(cell, len(index)) for cell in cells]
        return cls(np.array(codes, np.int32), tuple(index))

    @classmethod
    def unknown(cls, rows: int) -> Coded:
        """A column that the source does not have."""
        return cls(np.full(rows, -1, np.int32), ())


@dataclass(frozen=True)
class KernelTable:
    """Every row of one capture, in the order of its file (or files, for sliced exports)."""

    paths: tuple[Path, ...]
    kind: str  # "kernel_details", "op_summary" or "db"
    first_rows: tuple[int, ...]  # row at which each of `paths` begins
    step_id: Coded  # int; unknown everywhere when the source has no such column
    device: Coded
    stream: Coded
    name: Coded
    op: Coded  # the op type; unknown everywhere at Level0
    core: Coded
    input_shapes: Coded  # "96,1024,1024;3": the quotes inside the cell are taken off
    blocks: Coded  # int
    start_ns: np.ndarray  # int64
    duration_ps: np.ndarray  # int64
    wait_us: np.ndarray | None  # float64, NaN where unknown: the profiler itself computes it in doubles
    pmu: dict[str, np.ndarray] = field(default_factory=dict)  # column name -> float64 us, NaN where unknown

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def in_time(self) -> np.ndarray:
        """Rows in order of their start; rows that start together keep the file's order."""
        return np.argsort(self.start_ns, kind="stable")

    def duration_us(self, row: int) -> Decimal:
        """Exact duration of one row."""
        return microseconds(int(self.duration_ps[row]))

    def total_us(self, rows: np.ndarray | slice) -> Decimal:
        """Exact sum of durations over `rows` (indices, a mask or a slice)."""
        return microseconds(int(self.duration_ps[rows].sum()))

    def span_and_busy_us(self, rows: np.ndarray) -> tuple[Decimal, Decimal]:
        """(first start to last end, length of the union of busy intervals) of `rows`, exact."""
        if not len(rows):
            return Decimal(), Decimal()
        order = rows[np.argsort(self.start_ns[rows], kind="stable")]
        start = (self.start_ns[order] - self.start_ns[order[0]]) * 1000
        end = np.maximum.accumulate(start + self.duration_ps[order])
        idle = np.maximum(start[1:] - end[:-1], 0).sum()
        return microseconds(int(end[-1])), microseconds(int(end[-1] - idle))

    def lines(self, rows: Sequence[int] | np.ndarray) -> list[int]:
        """1-based line of each of `rows` in its own file; 0 where the source has no lines."""
        if self.kind == "db" or not len(rows):
            return [0] * len(rows)
        parts = np.searchsorted(self.first_rows, rows, side="right") - 1
        return [int(self._lines[part][row - self.first_rows[part]]) for part, row in zip(parts, rows, strict=True)]

    def where(self, row: int) -> str:
        """`file, line n` of a row, for messages."""
        if self.kind == "db":
            return f"{self.paths[0].name}, kernel {row + 1}"
        path = self.paths[int(np.searchsorted(self.first_rows, row, side="right")) - 1]
        return f"{path.name}, line {self.lines([row])[0]}"

    @cached_property
    def _lines(self) -> list[np.ndarray]:
        ends = (*self.first_rows[1:], len(self))
        return [_line_numbers(p, b - a) for p, a, b in zip(self.paths, self.first_rows, ends, strict=True)]


def read(path: Path, kind: str) -> KernelTable:
    """Read the kernels of `path`; `kind` as in OutputRecord.source_kind.

    Raises CaseFailure(INCOMPLETE) for a ragged row or an unreadable cell, with its line, column and value, and for a
    file that lacks the names, starts or durations.
    """
    if kind == "db":
        from scripts import capture_db

        return capture_db.read(path)
    from scripts import kernel_csv

    return kernel_csv.read(slices(path) if kind == "op_summary" else (path,), kind)


def slices(path: Path) -> tuple[Path, ...]:
    """All parts of the export that `path` belongs to, in order: msprof cuts op_summary after a million rows."""
    match = re.fullmatch(r"op_summary_slice_\d+_(\d+)\.csv", path.name)
    if not match:
        return (path,)
    parts = path.parent.glob(f"op_summary_slice_*_{match[1]}.csv")
    return tuple(sorted(parts, key=lambda part: int(part.name.split("_")[3])))


def microseconds(ps: int) -> Decimal:
    """Picoseconds as exact microseconds, without padding zeros: 1500000 -> 1.5."""
    return plain(ps * US_PER_PS)


def unquoted(cell: str) -> str:
    """Shapes carry one pair of quotes of their own: `"32,3;64"`; the empty pair is a scalar, not unknown."""
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _line_numbers(path: Path, rows: int) -> np.ndarray:
    """The line of each data row; counted one by one only where blank lines or line breaks in cells are in the way.

    Raises CaseFailure(INCOMPLETE) when the file no longer holds the rows that were read.
    """
    try:
        found = np.arange(2, rows + 2) if _count_lines(path) == rows + 1 else _counted(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _changed(path) from error
    if len(found) != rows:
        raise _changed(path)
    return found


def _count_lines(path: Path) -> int:
    newlines, last = 0, b"\n"
    with path.open("rb") as file:  # mapped into memory, a file that shrinks would end the process
        while block := file.read(4 << 20):
            newlines += block.count(b"\n")
            last = block[-1:]
    return newlines + (last != b"\n")


def _counted(path: Path) -> np.ndarray:
    with path.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text)
        next(reader, None)
        return np.array([reader.line_num for row in reader if row], np.int64)


def _changed(path: Path) -> CaseFailure:
    problem = f"{path} was changed while it was read: it no longer holds the rows that were there."
    return CaseFailure(Status.INCOMPLETE, problem, "Have nothing write into the capture, then run it again.")
