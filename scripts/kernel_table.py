"""The kernels of one capture, column by column, in every dialect that Ascend's tools write.

`kernel_details.csv` and `op_summary_*.csv` changed their headers many times, so columns are found by name, never by
position, and only those that the pipeline uses are converted. Text columns are kept as codes into their distinct
values. Numbers are exact: durations are integer picoseconds (10^-6 us), start times integer nanoseconds, because epoch
microseconds with a fraction do not fit a float64. `N/A` and an empty cell mean "unknown" (None), never 0.
"""

from __future__ import annotations

import csv
import mmap
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from scripts.errors import CaseFailure
from scripts.statistics import plain
from scripts.status import Status

US_PER_PS = Decimal("0.000001")
UNKNOWN = ("", "N/A")

# field of KernelTable -> the names that releases of torch_npu, CANN and MindSpore gave its column
NAMES: dict[str, tuple[str, ...]] = {
    "step_id": ("Step Id", "Step ID"),
    "device": ("Device_id", "Device ID", "Device Id"),
    "stream": ("Stream ID", "Stream Id"),
    "name": ("Name", "Op Name"),
    "op": ("Type", "OP Type", "Op Type"),
    "core": ("Accelerator Core", "Task Type"),
    "start_ns": ("Start Time(us)", "Task Start Time(us)", "Start Time", "Task Start Time"),
    "duration_ps": ("Duration(us)", "Task Duration(us)", "Duration", "Task Duration"),
    "wait_ps": ("Wait Time(us)", "Task Wait Time(us)", "Wait Time", "Task Wait Time"),
    "blocks": ("Block Num", "Block Dim"),
    "input_shapes": ("Input Shapes",),
}
REQUIRED = ("name", "start_ns", "duration_ps")
PMU_COLUMN = re.compile(
    r"(?:(?:aic|aiv)_)?(?:mac|vec|scalar|mte1|mte2|mte3|fixpipe)_time\(us\)|(?:aicore|aiv)_time\(us\)"
)

_CODED = pa.dictionary(pa.int32(), pa.string())
_START = pa.decimal128(38, 3)
_DURATION = pa.decimal128(38, 6)
_SMALL_FILE_BYTES = 4 << 20  # below this, starting reader threads costs more than they save


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
    has_steps: bool  # False: the source has no Step Id column at all
    step_id: Coded  # int
    device: Coded
    stream: Coded
    name: Coded
    op: Coded  # the op type; unknown everywhere at Level0
    core: Coded
    input_shapes: Coded  # "96,1024,1024;3": the quotes inside the cell are taken off
    blocks: Coded  # int
    start_ns: np.ndarray  # int64
    duration_ps: np.ndarray  # int64
    wait_ps: np.ndarray | None  # int64, -1 where unknown
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

    def total_us(self, rows: np.ndarray) -> Decimal:
        """Exact sum of durations over `rows` (indices or a mask)."""
        return microseconds(int(self.duration_ps[rows].sum()))

    def lines(self, rows: Sequence[int] | np.ndarray) -> list[int]:
        """1-based line of each of `rows` in its own file; 0 where the source has no lines."""
        if self.kind == "db" or not len(rows):
            return [0] * len(rows)
        part = np.searchsorted(self.first_rows, rows, side="right") - 1
        return [int(self._line_numbers[p][row - self.first_rows[p]]) for p, row in zip(part, rows, strict=True)]

    def where(self, row: int) -> str:
        """`file, line n` of a row, for messages."""
        if self.kind == "db":
            return f"{self.paths[0].name}, kernel {row + 1}"
        path = self.paths[int(np.searchsorted(self.first_rows, row, side="right")) - 1]
        return f"{path.name}, line {self.lines([row])[0]}"

    @cached_property
    def _line_numbers(self) -> list[np.ndarray]:
        ends = (*self.first_rows[1:], len(self))
        return [_line_numbers(p, b - a) for p, a, b in zip(self.paths, self.first_rows, ends, strict=True)]


def microseconds(ps: int) -> Decimal:
    """Picoseconds as exact microseconds, without padding zeros: 1500000 -> 1.5."""
    return plain(ps * US_PER_PS)


def read(path: Path, kind: str) -> KernelTable:
    """Read the kernels of `path`; `kind` as in OutputRecord.source_kind.

    Raises CaseFailure(INCOMPLETE) for a ragged row or an unreadable cell, with its line, column and value, and for a
    header that lacks the name, start or duration.
    """
    if kind == "db":
        from scripts import capture_db

        return capture_db.read(path)
    paths = slices(path) if kind == "op_summary" else (path,)
    tables = [_read_csv(p) for p in paths]
    return _join(paths, kind, tables)


def slices(path: Path) -> tuple[Path, ...]:
    """All parts of the export that `path` is the first part of: msprof cuts op_summary after a million rows."""
    match = re.fullmatch(r"op_summary_slice_\d+_(\d+)\.csv", path.name)
    if not match:
        return (path,)
    parts = path.parent.glob(f"op_summary_slice_*_{match[1]}.csv")
    return tuple(sorted(parts, key=lambda part: int(part.name.split("_")[3])))


def _read_csv(path: Path) -> pa.Table:
    """The wanted columns of one CSV file, named by KernelTable field (PMU columns by their own name)."""
    columns = _columns(path)
    types = {column: _type_of(name) for name, column in columns.items()}
    try:
        table = pa.csv.read_csv(
            path,
            read_options=pa.csv.ReadOptions(use_threads=path.stat().st_size > _SMALL_FILE_BYTES),
            convert_options=pa.csv.ConvertOptions(
                include_columns=list(types),
                column_types=types,
                null_values=list(UNKNOWN),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise _explained(path, columns, error) from error
    return table.rename_columns(list(columns))


def _type_of(name: str) -> pa.DataType:
    if PMU_COLUMN.fullmatch(name):
        return pa.float64()
    return {"start_ns": _START, "duration_ps": _DURATION, "wait_ps": _DURATION}.get(name, _CODED)


def _columns(path: Path) -> dict[str, str]:
    """KernelTable field -> the column's name in this file; PMU columns map to themselves."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError) as error:
        raise CaseFailure(Status.INCOMPLETE, f"{path} cannot be read: {error}.", _COLLECT_AGAIN) from error
    if len(set(header)) < len(header):
        twice = sorted({column for column in header if header.count(column) > 1})
        raise CaseFailure(Status.INCOMPLETE, f"{path}, line 1: column {twice} occurs twice.", _COLLECT_AGAIN)
    present = {column.strip(): column for column in header}
    found = {}
    for name, accepted in NAMES.items():
        known = [present[column] for column in accepted if column in present]
        if known:
            found[name] = known[0]
        elif name in REQUIRED:
            raise CaseFailure(
                Status.INCOMPLETE,
                f"{path}, line 1: there is no column for the kernels' {name.split('_')[0]} (accepted: "
                f"{', '.join(accepted)}); the header reads {', '.join(header) or 'nothing'}.",
                "Give the parser a kernel_details.csv or op_summary_*.csv as the profiler wrote it.",
            )
    return found | {column: present[column] for column in present if PMU_COLUMN.fullmatch(column)}


_COLLECT_AGAIN = "Remove the capture and profile the case again, or restore the file as the profiler wrote it."


def _explained(path: Path, columns: dict[str, str], error: Exception) -> CaseFailure:
    """The first ragged row or unreadable cell of `path`, found by a slow second reading."""
    numeric = {column: _type_of(name) for name, column in columns.items() if _type_of(name) != _CODED}
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        for row in reader:
            if row and len(row) != len(header):
                problem = f"{path}, line {reader.line_num}: {len(row)} cells where the header has {len(header)}"
                return CaseFailure(Status.INCOMPLETE, f"{problem}; its columns would be shifted.", _COLLECT_AGAIN)
            for column, cell in zip(header, row, strict=False):
                if column in numeric and not _readable(cell, numeric[column]):
                    problem = f"{path}, line {reader.line_num}, column {column}: {cell!r} is no number of microseconds"
                    return CaseFailure(Status.INCOMPLETE, f"{problem} with at most {_digits(column)}.", _COLLECT_AGAIN)
    return CaseFailure(Status.INCOMPLETE, f"{path} cannot be read as CSV: {error}.", _COLLECT_AGAIN)


def _digits(column: str) -> str:
    return "3 decimals" if column in NAMES["start_ns"] else "6 decimals"


def _readable(cell: str, wanted: pa.DataType) -> bool:
    if cell in UNKNOWN:
        return True
    try:
        if pa.types.is_floating(wanted):
            float(cell)
        else:
            Decimal(cell.strip()).quantize(Decimal(1).scaleb(-wanted.scale))  # refuses NaN and infinities
            pa.scalar(Decimal(cell.strip()), wanted)
    except (ValueError, ArithmeticError, pa.ArrowInvalid):
        return False
    return True


def _join(paths: tuple[Path, ...], kind: str, tables: list[pa.Table]) -> KernelTable:
    first_rows = tuple(int(n) for n in np.cumsum([0, *(len(table) for table in tables)])[:-1])
    # slices of one export have one header, so that only unequal ones need nulls filled in
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
    whole = whole.unify_dictionaries()
    rows = len(whole)

    def coded(name: str, convert: Callable[[str], Any] = str.strip) -> Coded:
        if name not in whole.column_names:
            return Coded.unknown(rows)
        return _coded(whole[name], convert, f"{paths[0]}, column {name}")

    wait = _integers(whole["wait_ps"], 6, -1) if "wait_ps" in whole.column_names else None
    table = KernelTable(
        paths=paths,
        kind=kind,
        first_rows=first_rows,
        has_steps="step_id" in whole.column_names,
        step_id=coded("step_id", _integer),
        device=coded("device"),
        stream=coded("stream"),
        name=coded("name"),
        op=coded("op"),
        core=coded("core"),
        input_shapes=coded("input_shapes", _unquoted),
        blocks=coded("blocks", _integer),
        start_ns=_integers(whole["start_ns"], 3, _MISSING),
        duration_ps=_integers(whole["duration_ps"], 6, _MISSING),
        wait_ps=wait,
        pmu={c: whole[c].to_numpy() for c in whole.column_names if PMU_COLUMN.fullmatch(c)},
    )
    _check(table)
    return table


_MISSING = np.iinfo(np.int64).min


def _check(table: KernelTable) -> None:
    """Refuse rows without name, start or duration, and durations that make no sense."""
    for values, accepted in ((table.start_ns, "start time"), (table.duration_ps, "duration")):
        missing = np.flatnonzero(values == _MISSING)
        if len(missing):
            problem = f"{table.where(missing[0])}: the row has no {accepted} ({table.name[missing[0]]})"
            raise CaseFailure(Status.INCOMPLETE, f"{problem}, so that no sum over it is known.", _COLLECT_AGAIN)
    negative = np.flatnonzero(table.duration_ps < 0)
    if len(negative):
        row = int(negative[0])
        problem = f"{table.where(row)}: the duration {table.duration_us(row)} us is negative ({table.name[row]})."
        raise CaseFailure(Status.INCOMPLETE, problem, _COLLECT_AGAIN)
    if table.duration_ps.sum(dtype=np.float64) > 2**62:
        raise CaseFailure(Status.INCOMPLETE, f"{table.paths[0]}: the durations add up to over 50 days.", _COLLECT_AGAIN)


def _coded(column: pa.ChunkedArray, convert: Callable[[str], Any], where: str) -> Coded:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # a column without rows
        return Coded.unknown(0)
    codes = np.asarray(array.indices.fill_null(-1))
    try:
        values = [convert(value) for value in array.dictionary.to_pylist()]
    except ValueError as error:
        raise CaseFailure(Status.INCOMPLETE, f"{where}: {error}.", _COLLECT_AGAIN) from error
    distinct = tuple(dict.fromkeys(values))
    if len(distinct) < len(values):  # " 13" and "13" are one value
        index = {value: code for code, value in enumerate(distinct)}
        codes = np.array([*(index[value] for value in values), -1], np.int32)[codes]
    return Coded(codes, distinct)


def _integer(cell: str) -> int:
    """An integer cell; "13.0" occurs in files that went through a spreadsheet."""
    try:
        number = Decimal(cell.strip())
        if number == number.to_integral_value():
            return int(number)
    except ArithmeticError:
        pass
    raise ValueError(f"{cell!r} is no integer")


def _unquoted(cell: str) -> str:
    """Shapes carry one pair of quotes of their own: `"32,3;64"`; the empty pair is a scalar, not unknown."""
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _integers(column: pa.ChunkedArray, scale: int, missing: int) -> np.ndarray:
    """The unscaled integers of a decimal128 column of this scale, `missing` for nulls; int64."""
    parts = [_low_words(chunk, scale, missing) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _low_words(chunk: pa.Array, scale: int, missing: int) -> np.ndarray:
    words = np.frombuffer(chunk.buffers()[1], np.int64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
    low, high = words[0::2].copy(), words[1::2]
    null = np.asarray(chunk.is_null()) if chunk.null_count else np.zeros(len(chunk), bool)
    too_large = np.flatnonzero((high != low >> 63) & ~null)
    if len(too_large):
        value = chunk[int(too_large[0])]
        raise CaseFailure(Status.INCOMPLETE, f"{value} us is no plausible time in a capture.", _COLLECT_AGAIN)
    low[null] = missing
    return low


def _line_numbers(path: Path, rows: int) -> np.ndarray:
    """The line of each data row; counted one by one only where blank lines or line breaks in cells are in the way."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size, position, newlines = len(data), 0, 0
        while position < size:
            newlines += data[position : position + _SMALL_FILE_BYTES].count(b"\n")
            position += _SMALL_FILE_BYTES
        newlines += data[size - 1] != ord("\n")
    if newlines == rows + 1:
        return np.arange(2, rows + 2)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        next(reader)
        return np.fromiter((reader.line_num for row in reader if row), np.int64, rows)
