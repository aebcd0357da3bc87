"""Reading kernel_details.csv and op_summary_*.csv in every dialect that Ascend's tools have written.

The headers changed many times, so columns are found by name, never by position, and only those that the pipeline uses
are converted, by the CSV reader itself: text to dictionary codes, times to decimals of a fixed scale.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from scripts.errors import CaseFailure
from scripts.kernel_table import UNKNOWN, Coded, KernelTable, unquoted
from scripts.status import Status

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
    "wait_us": ("Wait Time(us)", "Task Wait Time(us)", "Wait Time", "Task Wait Time"),
    "blocks": ("Block Num", "Block Dim"),
    "input_shapes": ("Input Shapes",),
}
REQUIRED = ("name", "start_ns", "duration_ps")
PMU_COLUMN = re.compile(
    r"(?:(?:aic|aiv)_)?(?:mac|vec|scalar|mte1|mte2|mte3|fixpipe)_time\(us\)|(?:aicore|aiv)_time\(us\)"
)
SCALES = {"start_ns": 3, "duration_ps": 6}  # decimals of a microsecond that are kept; more are refused

AGAIN = "Restore the file as the profiler wrote it, or remove the capture and profile the case again."
# Below this, starting reader threads costs more than they save.
_THREADS_FROM_BYTES = 4 << 20


def read(paths: tuple[Path, ...], kind: str) -> KernelTable:
    """Read `paths`, the slices of one export, as one table.

    Raises CaseFailure(INCOMPLETE), see `kernel_table.read`.
    """
    tables = [_read_file(path) for path in paths]
    first_rows = tuple(np.cumsum([0, *map(len, tables)])[:-1].tolist())
    # slices of one export have one header; a column that only some have is unknown in the others
    whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
    table = _table(whole.unify_dictionaries(), paths, kind, first_rows)
    _check_rows(table)
    return table


def _read_file(path: Path) -> pa.Table:
    """The wanted columns of one file, named as KernelTable's fields, and PMU columns as themselves."""
    found = columns(path)
    types = {column: _type_of(name) for name, column in found.items()}
    try:
        return _read_columns(path, types).rename_columns(list(found))
    except pa.ArrowInvalid as error:
        _explain(path, {column: name for name, column in found.items() if types[column] != _TEXT})
        try:  # nothing is wrong with it: then a cell holds a line break, which the fast way does not expect
            return _read_columns(path, types, newlines=True).rename_columns(list(found))
        except pa.ArrowInvalid:
            raise CaseFailure(Status.INCOMPLETE, f"{path} cannot be read as CSV: {error}.", AGAIN) from error


def _read_columns(path: Path, types: dict[str, pa.DataType], newlines: bool = False) -> pa.Table:
    return pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(use_threads=path.stat().st_size > _THREADS_FROM_BYTES),
        parse_options=pa.csv.ParseOptions(newlines_in_values=newlines),
        convert_options=pa.csv.ConvertOptions(
            include_columns=list(types),
            column_types=types,
            null_values=list(UNKNOWN),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


_TEXT = pa.dictionary(pa.int32(), pa.string())


def _type_of(name: str) -> pa.DataType:
    if name in SCALES:
        return pa.decimal128(38, SCALES[name])
    return pa.float64() if name == "wait_us" or PMU_COLUMN.fullmatch(name) else _TEXT


def columns(path: Path) -> dict[str, str]:
    """KernelTable field -> the column's name in this file; PMU columns map to themselves."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError) as error:
        raise CaseFailure(Status.INCOMPLETE, f"{path} cannot be read: {error}.", AGAIN) from error
    twice = sorted({column for column in header if header.count(column) > 1})
    if twice:
        raise CaseFailure(Status.INCOMPLETE, f"{path}, line 1: column {', '.join(twice)} occurs twice.", AGAIN)
    present = {column.strip(): column for column in header}
    found = {}
    for name, accepted in NAMES.items():
        known = [present[column] for column in accepted if column in present]
        if known:
            found[name] = known[0]
        elif name in REQUIRED:
            raise CaseFailure(
                Status.INCOMPLETE,
                f"{path}, line 1: there is no column {' or '.join(accepted)}; the header reads {', '.join(header)}.",
                "Give the parser a kernel_details.csv or op_summary_*.csv as the profiler wrote it.",
            )
    return found | {name: column for name, column in present.items() if PMU_COLUMN.fullmatch(name)}


def _explain(path: Path, numeric: dict[str, str]) -> None:
    """Raise for the first ragged row or unreadable number of `path`, found by a slow second reading."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if row and len(row) != len(header):
                problem = f"{where}: {len(row)} cells where the header has {len(header)}; its columns would be shifted."
                raise CaseFailure(Status.INCOMPLETE, problem, AGAIN)
            for column, cell in zip(header, row, strict=False):
                if column in numeric and not _is_number(cell, SCALES.get(numeric[column])):
                    digits = f" with at most {SCALES[numeric[column]]} decimals" if numeric[column] in SCALES else ""
                    problem = f"{where}, column {column}: {cell!r} is no number of microseconds{digits}."
                    raise CaseFailure(Status.INCOMPLETE, problem, AGAIN)


def _is_number(cell: str, scale: int | None) -> bool:
    """Whether the reader takes `cell`; `scale` is its number of decimals, None for a float."""
    if cell in UNKNOWN:
        return True
    try:
        if scale is None:
            float(cell)
        else:
            pa.scalar(Decimal(cell.strip()), pa.decimal128(38, scale))
    except (ValueError, ArithmeticError, pa.ArrowInvalid):
        return False
    return True


def _table(whole: pa.Table, paths: tuple[Path, ...], kind: str, first_rows: tuple[int, ...]) -> KernelTable:
    names = set(whole.column_names)

    def coded(name: str, convert: Callable[[str], Any] = str.strip) -> Coded:
        return _coded(whole[name], convert, f"{paths[0]}, {name}") if name in names else Coded.unknown(len(whole))

    return KernelTable(
        paths=paths,
        kind=kind,
        first_rows=first_rows,
        step_id=coded("step_id", _integer),
        device=coded("device"),
        stream=coded("stream"),
        name=coded("name"),
        op=coded("op"),
        core=coded("core"),
        input_shapes=coded("input_shapes", unquoted),
        blocks=coded("blocks", _integer),
        start_ns=_unscaled(whole["start_ns"]),
        duration_ps=_unscaled(whole["duration_ps"]),
        wait_us=whole["wait_us"].to_numpy() if "wait_us" in names else None,
        pmu={name: whole[name].to_numpy() for name in whole.column_names if PMU_COLUMN.fullmatch(name)},
    )


def _check_rows(table: KernelTable) -> None:
    """Refuse rows without start or duration, and durations that make no sense."""
    for values, what in ((table.start_ns, "start time"), (table.duration_ps, "duration")):
        missing = np.flatnonzero(values == _MISSING)
        if len(missing):
            row = int(missing[0])
            problem = f"{table.where(row)}: {table.name[row]} has no {what}, so that no sum over it is known."
            raise CaseFailure(Status.INCOMPLETE, problem, AGAIN)
    negative = np.flatnonzero(table.duration_ps < 0)
    if len(negative):
        row = int(negative[0])
        problem = f"{table.where(row)}: {table.name[row]} has the negative duration {table.duration_us(row)} us."
        raise CaseFailure(Status.INCOMPLETE, problem, AGAIN)
    if table.duration_ps.sum(dtype=np.float64) > 2**62:
        raise CaseFailure(Status.INCOMPLETE, f"{table.paths[0]}: the durations add up to over 50 days.", AGAIN)


def _coded(column: pa.ChunkedArray, convert: Callable[[str], Any], where: str) -> Coded:
    if not len(column):
        return Coded.unknown(0)
    array = column.combine_chunks()
    codes = np.asarray(array.indices.fill_null(-1))
    try:
        values = [convert(value) for value in array.dictionary.to_pylist()]
    except ValueError as error:
        raise CaseFailure(Status.INCOMPLETE, f"{where}: {error}.", AGAIN) from error
    distinct = tuple(dict.fromkeys(values))
    if len(distinct) < len(values):  # "13 " and "13" are one value
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


_MISSING = np.iinfo(np.int64).min


def _unscaled(column: pa.ChunkedArray) -> np.ndarray:
    """The integers behind a decimal128 column, int64; _MISSING for nulls."""
    return np.concatenate([np.empty(0, np.int64), *map(_low_words, column.chunks)])


def _low_words(chunk: pa.Array) -> np.ndarray:
    words = np.frombuffer(chunk.buffers()[1], np.int64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
    low, high = words[0::2].copy(), words[1::2]
    null = np.asarray(chunk.is_null())
    too_large = np.flatnonzero((high != low >> 63) & ~null)
    if len(too_large):
        problem = f"{chunk[int(too_large[0])].as_py()} us is no plausible time in a capture."
        raise CaseFailure(Status.INCOMPLETE, problem, AGAIN)
    low[null] = _MISSING
    return low
