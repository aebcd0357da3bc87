"""The numbers of a case: exact, per iteration, checked against a source that can disagree."""

from __future__ import annotations

import csv
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from statistics import median

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts import artifacts, locate_output, parse_csv
from scripts.artifacts import Noise, PerfRecord
from scripts.errors import CaseFailure
from scripts.status import Status
from tests import traces
from tests.traces import CAPTURE, GOLDENS, Trace, build, launch, profile

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no real captures in {CORPUS}")


def parsed(trace: Trace, folder: Path, **options: bool) -> PerfRecord:
    case_dir = folder / "case"
    shutil.rmtree(case_dir, ignore_errors=True)
    trace.write(case_dir, **options)
    return parse_csv.parse(case_dir)


def failure(case_dir: Path) -> CaseFailure:
    with pytest.raises(CaseFailure) as caught:
        parse_csv.parse(case_dir)
    return caught.value


def edited(trace: Trace, folder: Path, name: str, edit: Callable[[str], str]) -> Path:
    """The case's folder, with one file of its capture changed."""
    trace.write(folder)
    path = folder / CAPTURE / "ASCEND_PROFILER_OUTPUT" / name
    with path.open(newline="") as file:
        text = file.read()
    with path.open("w", newline="") as file:
        file.write(edit(text))
    return folder


# --- the E2E and its op table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [1, 2, 3, 10])
@pytest.mark.parametrize("name", GOLDENS)
def test_the_op_table_adds_up_to_the_e2e_exactly(name: str, iterations: int, tmp_path: Path) -> None:
    trace = build(GOLDENS[name], iterations, restores=1)
    perf = parsed(trace, tmp_path)
    totals = [trace.golden_us(k) for k in range(iterations)]
    assert perf.e2e_us == median(totals)
    assert sum(row.total_us for row in perf.ops) == perf.e2e_us
    assert [total.device_total_us for total in perf.iterations] == totals
    assert perf.all_rows_us - perf.dropped_us == sum(totals)


def test_one_iteration_is_the_plain_sum(tmp_path: Path) -> None:
    """Nothing is divided or averaged: the number is the sum of all kernels but the noise."""
    ops = [("MatMulV2", "45.2"), ("SoftmaxV2", "32.1"), ("MatMulV2", "45.2"), ("Mul", "122.8")]
    perf = parsed(build(lambda k: [launch(op, us=us) for op, us in ops], 1), tmp_path)
    assert perf.e2e_us == Decimal("245.3")
    table = [(row.op, row.count, row.mean_us, row.total_us) for row in perf.ops]
    assert ("MatMulV2", 2, Decimal("45.2"), Decimal("90.4")) in table
    assert any("One iteration" in warning for warning in perf.warnings)


def test_more_iterations_do_not_make_a_golden_slower(tmp_path: Path) -> None:
    def golden(k: int) -> list[traces.Launch]:
        return [launch("ReduceMax", "8,512;1", us="7.5"), launch("Exp", us="8.25")]

    found = [parsed(build(golden, n), tmp_path) for n in (1, 3, 10)]
    assert {perf.e2e_us for perf in found} == {Decimal("15.75")}
    assert {(row.op, row.count) for perf in found for row in perf.ops} == {("ReduceMax", 1), ("Exp", 1)}


def test_an_odd_number_of_iterations_shows_the_central_one(tmp_path: Path) -> None:
    durations = ["30", "10", "20"]
    perf = parsed(build(lambda k: [launch("Add", us=durations[k]), launch("Mul", us="1")], 3), tmp_path)
    assert {row.op: row.total_us for row in perf.ops} == {"Add": 20, "Mul": 1}


def test_an_even_number_of_iterations_shows_the_mean_of_the_central_two(tmp_path: Path) -> None:
    durations = ["30", "10", "20.001", "99"]
    perf = parsed(build(lambda k: [launch("Add", us=durations[k]), launch("Mul", us="1")], 4), tmp_path)
    assert {row.op: row.total_us for row in perf.ops} == {"Add": Decimal("25.0005"), "Mul": 1}
    assert perf.e2e_us == Decimal("26.0005")


DURATIONS = st.integers(1, 10**9).map(lambda thousandths: str(Decimal(thousandths).scaleb(-3)))


@given(table=st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(DURATIONS, min_size=n, max_size=n), min_size=1)))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_durations_add_up_exactly(table: list[list[str]], tmp_path: Path) -> None:
    ops = ("Add", "Mul", "Add", "Exp")
    golden = [[launch(op, us=us) for op, us in zip(ops, row, strict=False)] for row in table]
    perf = parsed(build(lambda k: golden[k], len(table)), tmp_path)
    assert perf.e2e_us == median(sum(map(Decimal, row)) for row in table)
    assert sum(row.total_us for row in perf.ops) == perf.e2e_us


def test_ops_are_told_apart_by_core(tmp_path: Path) -> None:
    perf = parsed(build(GOLDENS["AI_CPU beside MIX_AIC"], 3), tmp_path)
    assert [(row.op, row.core, row.count) for row in perf.ops] == [("PyPTO", "AI_CPU", 1), ("PyPTO", "MIX_AIC", 1)]
    assert any("AI CPU" in warning for warning in perf.warnings)
    assert any("overlap" in warning for warning in perf.warnings)
    assert perf.device_span.median_us < perf.device_total.median_us


def test_span_busy_and_total_are_three_numbers(tmp_path: Path) -> None:
    golden = [launch("Add", us="10"), launch("Mul", us="4", gap_us="-5"), launch("Exp", us="1", gap_us="11")]
    (total,) = parsed(build(lambda k: golden, 1), tmp_path).iterations
    assert (total.device_total_us, total.device_span_us, total.device_busy_us) == (15, 21, 11)


def test_a_short_kernel_inside_a_long_one_does_not_end_the_busy_interval(tmp_path: Path) -> None:
    golden = [launch("Add", us="100"), launch("Mul", us="1", gap_us="-99"), launch("Exp", us="1", gap_us="48")]
    (total,) = parsed(build(lambda k: golden, 1), tmp_path).iterations
    assert (total.device_span_us, total.device_busy_us) == (100, 100)


def test_kernels_are_listed_by_signature(tmp_path: Path) -> None:
    perf = parsed(
        build(lambda k: [launch("Add", "8"), launch("Add", "16", us=f"{k + 1}"), launch("Add", "8")], 3), tmp_path
    )
    found = {(row.op, row.input_shapes): (row.count, row.median_us) for row in perf.kernels}
    assert found == {("Add", "8"): (2, Decimal("5.125")), ("Add", "16"): (1, Decimal(2))}


def test_launch_spread_covers_every_launch_of_all_iterations(tmp_path: Path) -> None:
    perf = parsed(build(lambda k: [launch("Add", us=str(k + 1))] * 2, 5), tmp_path)
    (row,) = perf.ops
    assert (row.launch_us.n, row.launch_us.min_us, row.launch_us.max_us) == (10, 1, 5)


def test_graph_names_that_count_up_are_one_kernel(tmp_path: Path) -> None:
    perf = parsed(build(GOLDENS["graph names that count up"], 3), tmp_path)
    assert {row.name for row in perf.kernels} == {"Conv2D", "trans_Cast", "NonZero_MemSet"}


# --- what was dropped, and warnings ------------------------------------------------------------------------------


def test_every_dropped_row_has_its_line_and_rule(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3, restores=1, leaked=traces.LEAK)
    order = list(range(len(trace.rows)))
    random.Random(1).shuffle(order)
    trace.write(tmp_path / "case", order)
    perf = parse_csv.parse(tmp_path / "case")
    expected = [
        (line, trace.rows[k].rule, Decimal(trace.rows[k].us), trace.rows[k].step)
        for line, k in enumerate(order, start=2)
        if trace.rows[k].rule != "golden"
    ]
    assert [(row.line, row.rule, row.duration_us, row.step_id) for row in perf.dropped] == expected
    with (tmp_path / "case" / perf.output.source).open(newline="") as file:
        lines = list(csv.reader(file))
    assert all(lines[row.line - 1][1] == row.name for row in perf.dropped)


def test_communication_is_listed_apart(tmp_path: Path) -> None:
    perf = parsed(build(GOLDENS["communication"], 3), tmp_path)
    assert [row.rule for row in perf.dropped].count("communication") == 3
    assert {row.op for row in perf.ops} == {"MatMulV2", "Add"}
    assert any("3 communication rows (1501.5 us)" in warning for warning in perf.warnings)


def test_a_wide_spread_is_warned_of_with_its_number(tmp_path: Path) -> None:
    steady = parsed(build(lambda k: [launch("Add", us=f"{100 + k}")], 10), tmp_path)
    assert not any("spreads by" in warning for warning in steady.warnings)
    wild = parsed(build(lambda k: [launch("Add", us=f"{100 + 10 * k}")], 10), tmp_path)
    assert any("spreads by 31.0 %" in warning for warning in wild.warnings)


def test_an_outlier_is_counted_and_kept(tmp_path: Path) -> None:
    perf = parsed(build(lambda k: [launch("Add", us="900" if k == 3 else f"10.{k}")], 10), tmp_path)
    assert (perf.device_total.outliers, perf.device_total.n, perf.device_total.max_us) == (1, 10, 900)
    assert perf.e2e_us < 11


def test_host_walls_are_apart_from_the_device(tmp_path: Path) -> None:
    perf = parsed(build(GOLDENS["casts"], 3), tmp_path)
    assert perf.host_wall is not None
    assert perf.host_wall.median_us == 101
    assert perf.profiled_wall is None


def test_level0_groups_by_name_and_asks_for_level1(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3)
    bare = replace(trace, rows=[replace(row, op="N/A", core="N/A", shapes="N/A") for row in trace.rows])
    perf = parsed(bare, tmp_path, statistic=False)
    found = {(row.op, row.core, row.count) for row in perf.ops}
    assert found == {("aclnnCast_CastAiCore_Cast", "N/A", 2), ("aclnnRmsNorm_RmsNormAiCore_RmsNorm", "N/A", 1)}
    assert any("Ask for Level1" in warning for warning in perf.warnings)
    assert sum(row.total_us for row in perf.ops) == perf.e2e_us


def test_kernels_of_no_duration_are_no_result(tmp_path: Path) -> None:
    build(lambda k: [launch("Add", us="0")], 3).write(tmp_path / "case")
    error = failure(tmp_path / "case")
    assert error.status is Status.NO_KERNELS
    assert "duration of 0 us" in error.message


def test_perf_json_holds_what_was_parsed(tmp_path: Path) -> None:
    build(GOLDENS["softmax with amax"], 10, restores=1).write(tmp_path / "case")
    parse_csv.run(tmp_path / "case")
    assert artifacts.read(tmp_path / "case" / "perf.json", PerfRecord) == parse_csv.parse(tmp_path / "case")


# --- several devices ---------------------------------------------------------------------------------------------


def two_devices(text: str) -> str:
    lines = text.splitlines()
    rows = [f"{line},{device}" for line in lines[1:] for device in (0, 4)]
    return "\r\n".join([f"{lines[0]},Device_id", *rows, ""])


def test_rows_of_another_device_are_dropped(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3)
    trace.profile.device = replace(trace.profile.device, physical_id="4")
    case_dir = edited(trace, tmp_path / "case", "kernel_details.csv", two_devices)
    (case_dir / CAPTURE / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv").unlink()
    perf = parse_csv.parse(case_dir)
    assert perf.e2e_us == trace.golden_us(1)
    assert [row.rule for row in perf.dropped].count("other_device") == len(trace.rows)


def test_several_devices_without_knowing_which_are_refused(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3)
    trace.profile.device = replace(trace.profile.device, physical_id="")
    assert "devices 0, 4" in failure(edited(trace, tmp_path / "case", "kernel_details.csv", two_devices)).message


# --- the cross-check ---------------------------------------------------------------------------------------------


def test_agreement_with_op_statistic_names_it(tmp_path: Path) -> None:
    perf = parsed(build(GOLDENS["communication"], 3, restores=1), tmp_path)
    assert (perf.cross_check.source, perf.cross_check.agrees) == ("op_statistic.csv", True)
    assert perf.cross_check.ours_us == perf.cross_check.theirs_us


def test_no_second_source_is_no_agreement(tmp_path: Path) -> None:
    perf = parsed(build(GOLDENS["casts"], 3), tmp_path, statistic=False)
    assert (perf.cross_check.source, perf.cross_check.agrees) == ("", None)
    assert any("not cross-checked" in warning for warning in perf.warnings)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("Cast,AI_VECTOR_CORE,6,", "Cast,AI_VECTOR_CORE,7,", "Cast on AI_VECTOR_CORE: 6 x"),
        ("RmsNorm,AI_VECTOR_CORE,3,15.375", "RmsNorm,AI_VECTOR_CORE,3,15.475", "RmsNorm on AI_VECTOR_CORE"),
        ("RmsNorm,AI_VECTOR_CORE,3,15.375\r\n", "", "none in op_statistic.csv"),
        ("RmsNorm,AI_VECTOR_CORE", "RmsNorm,AI_CORE", "RmsNorm on AI_CORE: none in kernel_details.csv"),
    ],
)
def test_a_disagreement_is_incomplete_and_says_where(before: str, after: str, words: str, tmp_path: Path) -> None:
    def edit(text: str) -> str:
        assert before in text
        return text.replace(before, after)

    error = failure(edited(build(GOLDENS["casts"], 3), tmp_path / "case", "op_statistic.csv", edit))
    assert error.status is Status.INCOMPLETE
    assert words in error.message


def test_a_row_that_was_lost_on_the_way_to_the_csv_is_found(tmp_path: Path) -> None:
    """The same kernel of every iteration: the iterations agree, and only the second source knows."""

    def without_rms_norm(text: str) -> str:
        return "".join(line for line in text.splitlines(keepends=True) if "RmsNorm" not in line)

    error = failure(edited(build(GOLDENS["casts"], 3), tmp_path / "case", "kernel_details.csv", without_rms_norm))
    assert "RmsNorm on AI_VECTOR_CORE: none in kernel_details.csv, 3 x, 15.375 us in op_statistic.csv" in error.message


def test_rounding_of_the_second_source_is_no_disagreement(tmp_path: Path) -> None:
    case_dir = edited(
        build(GOLDENS["casts"], 3), tmp_path / "case", "op_statistic.csv", lambda text: text.replace("15.375", "15.38")
    )
    assert parse_csv.parse(case_dir).cross_check.agrees is True


def test_an_unreadable_second_source_is_not_passed_over(tmp_path: Path) -> None:
    case_dir = edited(
        build(GOLDENS["casts"], 3), tmp_path / "case", "op_statistic.csv", lambda text: text.replace("15.375", "?")
    )
    assert "op_statistic.csv, line" in failure(case_dir).message


def step_trace(case_dir: Path, computing: str) -> None:
    path = case_dir / CAPTURE / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv"
    path.write_text(f"Step,Computing,Free\n13,{computing},0\n")


def test_step_trace_is_the_second_source_where_there_is_no_op_statistic(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 1)
    trace.write(tmp_path / "case", statistic=False)
    total = sum(Decimal(row.us) for row in trace.rows)
    step_trace(tmp_path / "case", f"{float(total) + 1e-9:.17g}")
    assert parse_csv.parse(tmp_path / "case").cross_check.source == "step_trace_time.csv"
    step_trace(tmp_path / "case", f"{total + 1}")
    assert failure(tmp_path / "case").status is Status.INCOMPLETE


# --- other sources -----------------------------------------------------------------------------------------------


def make_database(path: Path, trace: Trace) -> None:
    """The trace as a database export, with the tasks that are no kernels, and outer tasks around MIX kernels."""
    strings: dict[str, int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    kernels, tasks = [], []
    for k, (row, start) in enumerate(zip(trace.rows, trace.starts_ns, strict=True)):
        end = start + int(Decimal(row.us) * 1000)
        tasks.append((start, end, 0, 2 * k, text("KERNEL_AIVEC")))
        tasks.append((start - 1000, end + 2000, 0, 2 * k + 1, text("KERNEL_AICORE")))  # outer task
        kernels.append((text(row.name), 2 * k, 20, text(row.core), text(row.op), text(row.shapes)))
    tasks.append((trace.starts_ns[0] - 9000, trace.starts_ns[0] - 8000, 0, 10**6, text("MEMCPY_ASYNC")))
    steps = {row.step for row in trace.rows}
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, globalTaskId INTEGER, "
            "taskType INTEGER, streamId INTEGER DEFAULT 2)"
        )
        connection.execute(
            "CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, "
            "taskType INTEGER, opType INTEGER, inputShapes INTEGER)"
        )
        connection.execute("CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT)")
        connection.execute("CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER)")
        connection.executemany("INSERT INTO TASK VALUES (?, ?, ?, ?, ?, 2)", tasks)
        connection.executemany("INSERT INTO COMPUTE_TASK_INFO VALUES (?, ?, ?, ?, ?, ?)", kernels)
        connection.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", [(k, v) for v, k in strings.items()])
        for step in sorted(step for step in steps if step is not None):
            own = [s for row, s in zip(trace.rows, trace.starts_ns, strict=True) if row.step == step]
            connection.execute("INSERT INTO STEP_TIME VALUES (?, ?, ?)", (step, own[0] - 100, own[-1] + 100))


def test_a_database_gives_the_same_numbers_as_the_csv(tmp_path: Path) -> None:
    trace = build(GOLDENS["max of the noise's shape"], 3, restores=1)
    from_csv = parsed(trace, tmp_path)
    source = tmp_path / "case" / from_csv.output.source
    make_database(source.with_name("ascend_pytorch_profiler.db"), trace)
    source.unlink()
    locate_output.run(tmp_path / "case")
    from_database = parse_csv.parse(tmp_path / "case")
    assert from_database.output.source_kind == "db"
    assert from_database.ops == from_csv.ops
    assert from_database.iterations == from_csv.iterations
    assert {row.line for row in from_database.dropped} == {0}


def test_op_summary_gives_the_same_numbers_as_kernel_details(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3, with_steps=False)
    details = parsed(trace, tmp_path)
    source = tmp_path / "case" / details.output.source
    folder = tmp_path / "case" / CAPTURE / "PROF_000001" / "mindstudio_profiler_output"
    folder.mkdir(parents=True)
    header, rows = source.read_bytes().split(b"\r\n", 1)
    renamed = header.replace(b"Name,Type,Accelerator Core,Start", b"Op Name,OP Type,Task Type,Task Start")
    (folder / "op_summary_20260101000000.csv").write_bytes(
        renamed.replace(b"Duration", b"Task Duration") + b"\r\n" + rows
    )
    source.unlink()
    locate_output.run(tmp_path / "case")
    summary = parse_csv.parse(tmp_path / "case")
    assert summary.output.source_kind == "op_summary"
    assert summary.ops == details.ops


# --- real captures -----------------------------------------------------------------------------------------------


def imported(case_dir: Path, tree: str, step: int) -> Path:
    """A real capture as a case of one iteration without noise."""
    shutil.copytree(CORPUS / tree, case_dir / tree)
    record = replace(profile(1), profiler_dir=tree, noise=Noise(0, (), "float32", ()))
    record.regions = [replace(record.regions[0], step_id=step)]
    artifacts.write(case_dir / "profile.json", record)
    locate_output.run(case_dir)
    return case_dir


@needs_corpus
def test_a_real_level0_capture_agrees_with_its_step_trace(tmp_path: Path) -> None:
    perf = parse_csv.parse(imported(tmp_path, "tree_2025_01_level0_rank0_ascend_pt", 50))
    assert perf.output.level == "Level0"
    assert perf.e2e_us == Decimal("8827.454")
    assert (perf.cross_check.source, perf.cross_check.agrees) == ("step_trace_time.csv", True)
    assert [row.rule for row in perf.dropped] == ["communication"] * 4
    assert {"Conv2D", "trans_TransData"} <= {row.op for row in perf.ops}


@needs_corpus
def test_a_real_capture_cut_after_300_rows_does_not_agree_with_its_op_statistic(tmp_path: Path) -> None:
    tree = "tree_cann83rc1_level2_rank2_dev4_ascend_pt"
    error = failure(imported(tmp_path, tree, 13))
    assert error.status is Status.INCOMPLETE
    assert "MatMulV3" in error.message
    for name in ("op_statistic.csv", "step_trace_time.csv"):
        (tmp_path / tree / "ASCEND_PROFILER_OUTPUT" / name).unlink()
    perf = parse_csv.parse(tmp_path)
    assert perf.e2e_us == Decimal("57166.280")
    with (tmp_path / perf.output.source).open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["Type"], r["Accelerator Core"]) == ("MatMulV3", "AI_CORE")]
    cube = sum(float(r["aic_mac_time(us)"]) for r in rows) / sum(float(r["aicore_time(us)"]) for r in rows)
    (matmul,) = [row for row in perf.pipes if (row.op, row.core) == ("MatMulV3", "AI_CORE")]
    assert matmul.shares["cube"] == pytest.approx(cube)
    assert (matmul.bound, matmul.blocks) == ("mte2", 20)
    assert sum(row.total_us for row in perf.ops) == perf.e2e_us


@needs_corpus
def test_a_real_database_is_parsed(tmp_path: Path) -> None:
    perf = parse_csv.parse(imported(tmp_path, "tree_db_only_level0_rank0_ascend_pt", 50))
    assert perf.output.source_kind == "db"
    assert perf.iterations[0].kernels == 187
