"""Whatever dialect a capture is written in, the same numbers are read, exactly; what cannot be read is refused."""

from __future__ import annotations

import csv
import functools
import json
import operator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from scripts import kernel_csv, kernel_table
from scripts.errors import CaseFailure
from scripts.kernel_table import KernelTable
from scripts.status import Status
from tests.dialects import DIALECTS, FIXED, ROWS, Dialect, Row

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no real captures in {CORPUS}")

START_NS = 1_736_408_883_704_643_212
SOME_ROWS = [
    Row("aclnnMax_ReduceMaxAiCore_ReduceMax", "ReduceMax", "AI_CORE", START_NS, Decimal("310.04"), "96,1024;3", 48, 13),
    Row("aclnnAdd_AddAiCore_Add", "Add", "AI_VECTOR_CORE", START_NS + 355_789, Decimal("1.9"), "4096;", 4, 13),
    Row(
        "aclnnMm_MatMulCommon_MatMulV2",
        "MatMulV2",
        "AI_CORE",
        START_NS + 9_000_001,
        Decimal("158553.280"),
        "8;8",
        20,
        14,
    ),
    Row("Arange", "Range", "AI_VECTOR_CORE", START_NS + 200_000_000, Decimal("0.0001"), "", 1, None),
    Row("hcom_allReduce__170_1_1", "hcom", "COMMUNICATION", START_NS + 300_000_000, Decimal(0), None, None, 14, None),
]


def read(folder: Path, data: bytes, name: str = "kernel_details.csv") -> KernelTable:
    (folder / name).write_bytes(data)
    return kernel_table.read(folder / name, "kernel_details")


def refusal(folder: Path, text: str) -> CaseFailure:
    with pytest.raises(CaseFailure) as caught:
        read(folder, text.encode())
    assert caught.value.status is Status.INCOMPLETE
    return caught.value


def assert_same(table: KernelTable, rows: list[Row], dialect: Dialect) -> None:
    assert len(table) == len(rows)
    assert table.start_ns.tolist() == [row.start_ns for row in rows]
    for k, row in enumerate(rows):
        assert table.duration_us(k) == row.duration_us
        assert table.name[k] == row.name
        assert table.op[k] == row.op
        assert table.core[k] == row.core
        assert table.input_shapes[k] == (row.shapes if dialect.shapes else None)
        assert table.blocks[k] == (row.blocks if dialect.blocks else None)
        assert table.step_id[k] == (row.step if dialect.step else None)
        assert table.device[k] == (row.device if dialect.device else None)
        assert table.stream[k] == row.stream
    assert table.lines(np.arange(len(rows))) == list(range(2, len(rows) + 2))
    assert table.total_us(slice(None)) == sum(row.duration_us for row in rows)


@pytest.mark.parametrize("period", FIXED)
def test_every_known_dialect_gives_the_same_rows(period: str, tmp_path: Path) -> None:
    assert_same(read(tmp_path, FIXED[period].write(SOME_ROWS)), SOME_ROWS, FIXED[period])


@given(rows=ROWS, dialect=DIALECTS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_random_dialect_round_trips(rows: list[Row], dialect: Dialect, tmp_path: Path) -> None:
    assert_same(read(tmp_path, dialect.write(rows)), rows, dialect)


def test_start_times_keep_digits_that_a_float_loses(tmp_path: Path) -> None:
    table = read(tmp_path, Dialect().write(SOME_ROWS))
    assert int(float("1736408883704643.212") * 1000) != START_NS
    assert table.start_ns[0] == START_NS
    assert table.span_and_busy_us(np.array([0, 1])) == (Decimal("357.689"), Decimal("311.94"))


def test_sums_are_exact(tmp_path: Path) -> None:
    rows = [
        Row("Add", "Add", "AI_CORE", 1_736_408_883_704_643_212 + k, Decimal("0.1"), "1", 1, 1) for k in range(10_000)
    ]
    table = read(tmp_path, Dialect().write(rows))
    assert table.total_us(slice(None)) == 1000
    assert functools.reduce(operator.add, [0.1] * 10_000) != 1000


def test_unknown_is_not_zero(tmp_path: Path) -> None:
    text = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Num,Input Shapes\n"
    table = read(tmp_path, f'{text},Add,N/A,N/A,17.5,2.5,,N/A\n13,Add,Add,AI_CORE,18.5,0,0,""""""\n'.encode())
    unknown = [column[0] for column in (table.step_id, table.op, table.core, table.blocks, table.input_shapes)]
    assert unknown == [None] * 5
    assert [column[1] for column in (table.step_id, table.blocks, table.input_shapes)] == [13, 0, ""]


def test_a_ragged_row_is_refused_with_its_line(tmp_path: Path) -> None:
    message = refusal(tmp_path, "Name,Type,Start Time(us),Duration(us)\nAdd,Add,17.5,2.5\nAdd,Add,2.5\n").message
    assert "kernel_details.csv, line 3: 3 cells where the header has 4" in message


@pytest.mark.parametrize("cell", ["abc", "1,5", "nan", "inf", "0x10", "1.0000001", "1 2"])
def test_an_unreadable_duration_is_refused_with_line_column_and_value(cell: str, tmp_path: Path) -> None:
    text = f'Name,Type,Start Time(us),Duration(us)\nAdd,Add,17.5,2.5\nAdd,Add,18.5,"{cell}"\n'
    message = refusal(tmp_path, text).message
    assert f"line 3, column Duration(us): {cell!r} is no number of microseconds with at most 6 decimals" in message


@pytest.mark.parametrize("cell", ["", "N/A"])
@pytest.mark.parametrize("column", ["duration", "start time"])
def test_a_missing_duration_or_start_is_refused(cell: str, column: str, tmp_path: Path) -> None:
    cells = f"17.5,{cell}" if column == "duration" else f"{cell},2.5"
    message = refusal(tmp_path, f"Name,Type,Start Time(us),Duration(us)\nMul,Mul,1,1\nAdd,Add,{cells}\n").message
    assert f"line 3: Add has no {column}" in message


def test_a_negative_duration_is_refused(tmp_path: Path) -> None:
    assert "negative" in refusal(tmp_path, "Name,Type,Start Time(us),Duration(us)\nAdd,Add,17.5,-2.5\n").message


@pytest.mark.parametrize("cell", ["99999999999999999999", "1e30"])
def test_a_time_beyond_64_bits_is_refused(cell: str, tmp_path: Path) -> None:
    refusal(tmp_path, f"Name,Type,Start Time(us),Duration(us)\nAdd,Add,{cell},2.5\n")
    refusal(tmp_path, f"Name,Type,Start Time(us),Duration(us)\nAdd,Add,1,{cell}\n")


def test_durations_that_would_overflow_a_sum_are_refused(tmp_path: Path) -> None:
    lines = "Add,Add,17.5,5000000000000\n" * 3
    assert "50 days" in refusal(tmp_path, f"Name,Type,Start Time(us),Duration(us)\n{lines}").message


def test_a_header_without_durations_names_what_is_accepted(tmp_path: Path) -> None:
    message = refusal(tmp_path, "Name,Type,Start Time(us)\nAdd,Add,17.5\n").message
    assert "Duration(us) or Task Duration(us)" in message


def test_a_column_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    text = "Name,Type,Start Time(us),Duration(us),Duration(us)\nAdd,Add,17.5,1,2\n"
    assert "column Duration(us) occurs twice" in refusal(tmp_path, text).message


def test_a_step_id_that_is_no_integer_is_refused(tmp_path: Path) -> None:
    text = "Step Id,Name,Start Time(us),Duration(us)\nx,Add,17.5,1\n"
    assert "'x' is no integer" in refusal(tmp_path, text).message


def test_step_ids_that_a_spreadsheet_turned_into_floats_are_read(tmp_path: Path) -> None:
    table = read(tmp_path, b"Step Id,Name,Start Time(us),Duration(us)\n13.0,Add,17.5,1\n13,Add,18.5,1\n,Add,19.5,1\n")
    assert [table.step_id[k] for k in range(3)] == [13, 13, None]
    assert table.step_id.values == (13,)


def test_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.csv").write_bytes(b"Name,Start Time(us),Duration(us)\n\xff\xfe,17.5,1\n")
    with pytest.raises(CaseFailure, match="cannot be read"):
        kernel_table.read(tmp_path / "k.csv", "kernel_details")


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    assert len(read(tmp_path, b"Step Id,Name,Type,Start Time(us),Duration(us)\r\n")) == 0


def test_blank_lines_do_not_shift_line_numbers(tmp_path: Path) -> None:
    table = read(tmp_path, b"Name,Start Time(us),Duration(us)\nAdd,17.5,1\n\nMul,18.5,1\n\n")
    assert table.lines([0, 1]) == [2, 4]


def test_a_line_break_inside_a_cell_is_no_row(tmp_path: Path) -> None:
    big = "".join(f'"Add\n{k}",17.5,1\n' for k in range(200_000))
    table = read(tmp_path, f"Name,Start Time(us),Duration(us)\n{big}".encode())
    assert len(table) == 200_000
    assert table.name[199_999] == "Add\n199999"
    assert table.lines([1]) == [5]


def test_slices_of_one_export_are_read_as_one_table(tmp_path: Path) -> None:
    dialect = FIXED["op_summary"]
    for number, rows in ((0, SOME_ROWS[3:]), (1, SOME_ROWS[:2]), (10, SOME_ROWS[2:3])):
        (tmp_path / f"op_summary_slice_{number}_20260101000000.csv").write_bytes(dialect.write(rows))
    (tmp_path / "op_summary_slice_0_20250101000000.csv").write_bytes(b"another export")
    table = kernel_table.read(tmp_path / "op_summary_slice_0_20260101000000.csv", "op_summary")
    order = SOME_ROWS[3:] + SOME_ROWS[:2] + SOME_ROWS[2:3]
    assert [table.name[k] for k in range(5)] == [row.name for row in order]
    assert table.in_time.tolist() == [2, 3, 4, 0, 1]
    assert table.lines([0, 1, 2, 3, 4]) == [2, 3, 2, 3, 2]
    assert table.where(4) == "op_summary_slice_10_20260101000000.csv, line 2"


def test_pmu_columns_are_read_and_others_are_not(tmp_path: Path) -> None:
    text = "Name,Start Time(us),Duration(us),aic_mac_time(us),aic_mac_ratio,aicore_time(us)\nA,1,2,3.5,0.9,N/A\n"
    table = read(tmp_path, text.encode())
    assert set(table.pmu) == {"aic_mac_time(us)", "aicore_time(us)"}
    assert table.pmu["aic_mac_time(us)"].tolist() == [3.5]
    assert np.isnan(table.pmu["aicore_time(us)"]).all()


def test_an_unreadable_pmu_cell_is_refused_with_its_place(tmp_path: Path) -> None:
    text = "Name,Start Time(us),Duration(us),aic_mac_time(us)\nA,1,2,3.5\nA,1,2,x\n"
    assert "line 3, column aic_mac_time(us): 'x' is no number" in refusal(tmp_path, text).message


# --- real captures -----------------------------------------------------------------------------------------------


def header_sets() -> dict[str, list[str]]:
    path = CORPUS / "headers_by_level_and_chip.json"
    if not path.is_file():
        return {}
    sets = {name: entry.get("cols") for name, entry in json.loads(path.read_text()).items() if name[0] != "_"}
    return {name: columns for name, columns in sets.items() if columns and "Name" in columns}


@needs_corpus
def test_every_header_set_that_is_written_out_is_read(tmp_path: Path) -> None:
    found = header_sets()
    assert len(found) >= 4
    for name, columns in found.items():
        header = [column.strip("[]") for column in columns if " columns" not in column]
        cells = ["1736408883704643.212\t" if "Start" in c else "1.5" if "Duration" in c else "N/A" for c in header]
        table = read(tmp_path, f"{','.join(header)}\r\n{','.join(cells)}\r\n".encode())
        assert (table.start_ns.tolist(), table.duration_us(0)) == ([START_NS], Decimal("1.5")), name


@needs_corpus
@pytest.mark.parametrize(
    "relative",
    [
        "tree_2025_01_level0_rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv",
        "tree_cann83rc1_level2_rank2_dev4_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv",
        "kd_2025_pipeutil_quoted_tab_matmul_fa.csv",
    ],
)
def test_a_real_capture_reads_as_the_csv_module_reads_it(relative: str) -> None:
    path = CORPUS / relative
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    table = kernel_table.read(path, "kernel_details")
    assert [table.name[k] for k in range(len(table))] == [row["Name"] for row in rows]
    assert [table.duration_us(k) for k in range(len(table))] == [Decimal(row["Duration(us)"]) for row in rows]
    starts = [int(Decimal(row["Start Time(us)"].strip()) * 1000) for row in rows]
    assert table.start_ns.tolist() == starts
    types = [None if row["Type"] == "N/A" else row["Type"] for row in rows]
    assert [table.op[k] for k in range(len(table))] == types


@needs_corpus
def test_the_real_capture_with_a_cell_missing_is_refused_at_its_line() -> None:
    with pytest.raises(CaseFailure, match="line 17: 31 cells where the header has 32"):
        kernel_table.read(CORPUS / "kd_2023_memoryl0_hccl_aicpu_dsa_rank0.csv", "kernel_details")


@needs_corpus
def test_the_other_rows_of_that_capture_are_read(tmp_path: Path) -> None:
    lines = (CORPUS / "kd_2023_memoryl0_hccl_aicpu_dsa_rank0.csv").read_bytes().splitlines(keepends=True)
    table = read(tmp_path, b"".join(lines[:16] + lines[17:]))
    assert len(table) == 20
    assert {"DSA_SQE", "AI_CPU", "HCCL"} <= set(table.core.values)
    assert table.duration_us(0) == Decimal("496.8508")


@needs_corpus
def test_a_real_database_has_its_kernels_and_not_their_outer_tasks() -> None:
    (path,) = CORPUS.glob("tree_db_only*/ASCEND_PROFILER_OUTPUT/*.db")
    table = kernel_table.read(path, "db")
    assert len(table) == 191  # 187 kernels and 4 communications, of 550 tasks
    assert set(table.step_id.values) == {50}
    assert table.name[0] == "trans_TransData_0"
    assert table.lines([0, 1]) == [0, 0]
    assert not table.op.known[:3].any()  # a Level0 capture


def test_column_names_are_looked_up_once_per_meaning() -> None:
    names = [name for accepted in kernel_csv.NAMES.values() for name in accepted]
    assert len(names) == len(set(names))
