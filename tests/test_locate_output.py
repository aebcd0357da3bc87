"""One file is taken, and it is said why; whatever is missing gets its own diagnosis."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from scripts import artifacts, capture_folder, locate_output
from scripts.artifacts import OutputRecord
from scripts.errors import ArtifactError, CaseFailure
from scripts.locate_output import locate
from scripts.status import Status
from tests.traces import CAPTURE, profile

ROWS = "Name,Start Time(us),Duration(us)\nAdd,17.5,1\n"


@pytest.fixture
def case_dir(tmp_path: Path) -> Path:
    """A case whose profiler left an empty ASCEND_PROFILER_OUTPUT."""
    output(tmp_path).mkdir(parents=True)
    artifacts.write(tmp_path / "profile.json", profile(3))
    return tmp_path


def output(case_dir: Path) -> Path:
    return case_dir / CAPTURE / "ASCEND_PROFILER_OUTPUT"


def msprof(case_dir: Path, folder: str = "PROF_000001_20260101000000000_ABCDEFGH") -> Path:
    path = case_dir / CAPTURE / folder / "mindstudio_profiler_output"
    path.mkdir(parents=True, exist_ok=True)
    return path


def database(path: Path, kernels: int) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER)")
        connection.executemany("INSERT INTO COMPUTE_TASK_INFO VALUES (?, ?)", [(1, k) for k in range(kernels)])


def failure(case_dir: Path) -> CaseFailure:
    with pytest.raises(CaseFailure) as caught:
        locate(case_dir)
    assert caught.value.advice
    return caught.value


def missing(case_dir: Path) -> CaseFailure:
    error = failure(case_dir)
    assert error.status is Status.MISSING_OUTPUT
    return error


def test_kernel_details_is_taken_and_the_rest_is_named(case_dir: Path) -> None:
    (output(case_dir) / "kernel_details.csv").write_text(ROWS)
    (output(case_dir) / "trace_view.json").write_text("[]")
    (msprof(case_dir) / "op_summary_20260101000000.csv").write_text(ROWS)
    found = locate(case_dir)
    assert found.source == f"{CAPTURE}/ASCEND_PROFILER_OUTPUT/kernel_details.csv"
    assert (found.source_kind, found.profiler_dir) == ("kernel_details", CAPTURE)
    assert f"{CAPTURE}/ASCEND_PROFILER_OUTPUT/trace_view.json" in found.others
    assert found.source not in found.others


def test_run_writes_output_json(case_dir: Path) -> None:
    (output(case_dir) / "kernel_details.csv").write_text(ROWS)
    locate_output.run(case_dir)
    assert artifacts.read(case_dir / "output.json", OutputRecord) == locate(case_dir)


def test_op_summary_is_taken_where_kernel_details_is_missing(case_dir: Path) -> None:
    (msprof(case_dir) / "op_summary_20260101000000.csv").write_text(ROWS)
    database(output(case_dir) / "ascend_pytorch_profiler.db", 3)
    found = locate(case_dir)
    assert found.source_kind == "op_summary"
    assert "kernel_details.csv does not exist" in found.why


def test_the_first_slice_stands_for_all(case_dir: Path) -> None:
    for number in (10, 2, 0):
        (msprof(case_dir) / f"op_summary_slice_{number}_20260101000000.csv").write_text(ROWS)
    found = locate(case_dir)
    assert found.source.endswith("op_summary_slice_0_20260101000000.csv")
    assert not any("op_summary" in other for other in found.others)


def test_several_exports_are_not_chosen_between(case_dir: Path) -> None:
    for stamp in (20260101000000, 20260102000000):
        (msprof(case_dir) / f"op_summary_{stamp}.csv").write_text(ROWS)
    assert "several op_summary exports" in missing(case_dir).message


@pytest.mark.parametrize("name", ["what?", "a#b", "100%20", "ünï"])
def test_a_database_is_opened_wherever_it_lies_and_not_made(name: str, tmp_path: Path) -> None:
    path = tmp_path / name / "ascend_pytorch_profiler.db"
    path.parent.mkdir()
    with pytest.raises(sqlite3.Error), capture_folder.open_readonly(path):
        pass
    assert not path.exists()
    database(path, 2)
    with capture_folder.open_readonly(path) as connection:
        assert connection.execute("SELECT count(*) FROM COMPUTE_TASK_INFO").fetchone() == (2,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM COMPUTE_TASK_INFO")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_database_is_taken_last(case_dir: Path) -> None:
    database(output(case_dir) / "ascend_pytorch_profiler_0.db", 3)
    assert locate(case_dir).source_kind == "db"


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "is empty"), ("Name,Duration(us)\r\n", "has a header and no rows"), ("\n\n", "is empty")],
)
def test_a_csv_without_rows_is_missing_output(content: str, words: str, case_dir: Path) -> None:
    (output(case_dir) / "kernel_details.csv").write_text(content)
    error = missing(case_dir)
    assert words in error.message
    assert "analyse(" in error.advice
    assert case_dir.name in error.advice


def test_only_operator_details_means_that_nothing_ran_on_the_device(case_dir: Path) -> None:
    (output(case_dir) / "operator_details.csv").write_text("Name,Input Shapes\n")
    error = missing(case_dir)
    assert "operator_details.csv" in error.message
    assert "torch.npu.is_available()" in error.advice
    assert "device_count()" in error.advice


def test_analyse_done_proves_nothing(case_dir: Path) -> None:
    (output(case_dir) / "analyse.done").write_text("")
    error = missing(case_dir)
    assert "holds nothing" in error.message
    assert "msprof" in error.advice


def test_a_capture_that_was_not_analysed_is_told_how_to(case_dir: Path) -> None:
    output(case_dir).rmdir()
    (case_dir / CAPTURE / "PROF_000001").mkdir()
    error = missing(case_dir)
    assert "no ASCEND_PROFILER_OUTPUT" in error.message
    assert "analyse(" in error.advice


def test_an_empty_capture_means_that_the_profiler_did_not_start(case_dir: Path) -> None:
    output(case_dir).rmdir()
    assert "PROFILING_MODE" in missing(case_dir).advice


def test_no_capture_at_all_means_that_the_profiler_did_not_start(tmp_path: Path) -> None:
    artifacts.write(tmp_path / "profile.json", profile(3))
    error = missing(tmp_path)
    assert CAPTURE in error.message
    assert "versions of torch, torch_npu and CANN" in error.advice


def test_a_database_without_kernels_is_not_taken(case_dir: Path) -> None:
    database(output(case_dir) / "ascend_pytorch_profiler.db", 0)
    assert "COMPUTE_TASK_INFO" in missing(case_dir).message


def test_a_file_that_only_looks_like_a_database_is_not_taken(case_dir: Path) -> None:
    (output(case_dir) / "ascend_pytorch_profiler.db").write_text("no database")
    missing(case_dir)


def test_a_second_capture_is_an_error_that_names_both(case_dir: Path) -> None:
    (output(case_dir) / "kernel_details.csv").write_text(ROWS)
    stale = case_dir / "host_0_20250101000000000_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    stale.mkdir(parents=True)
    (stale / "kernel_details.csv").write_text(ROWS)
    message = missing(case_dir).message
    assert CAPTURE in message
    assert stale.parent.name in message


def test_a_folder_that_only_begins_like_a_capture_is_no_second_one(case_dir: Path) -> None:
    (output(case_dir) / "kernel_details.csv").write_text(ROWS)
    (case_dir / f"{CAPTURE}_op_args").mkdir()
    assert locate(case_dir).source_kind == "kernel_details"


def test_a_foreign_capture_may_have_any_name(tmp_path: Path) -> None:
    record = profile(3)
    record.profiler_dir = "foreign/PROF_000001"
    artifacts.write(tmp_path / "profile.json", record)
    folder = tmp_path / "foreign" / "PROF_000001" / "mindstudio_profiler_output"
    folder.mkdir(parents=True)
    (folder / "op_summary_20260101000000.csv").write_text(ROWS)
    assert locate(tmp_path).source == "foreign/PROF_000001/mindstudio_profiler_output/op_summary_20260101000000.csv"


def test_a_capture_is_found_where_profile_json_names_none(case_dir: Path) -> None:
    (output(case_dir) / "kernel_details.csv").write_text(ROWS)
    record = profile(3)
    record.profiler_dir = ""
    artifacts.write(case_dir / "profile.json", record)
    assert locate(case_dir).profiler_dir == CAPTURE


def info(case_dir: Path, name: str, level: object) -> None:
    content = {"config": {"experimental_config": {"_profiler_level": level}}}
    (case_dir / CAPTURE / name).write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["profiler_info.json", "profiler_info_2.json"])
def test_the_level_is_read_and_compared(name: str, case_dir: Path) -> None:
    (output(case_dir) / "kernel_details.csv").write_text(ROWS)
    record = profile(3)
    record.expected_level = "Level1"
    artifacts.write(case_dir / "profile.json", record)
    info(case_dir, name, "Level1")
    assert locate(case_dir).level == "Level1"
    info(case_dir, name, "Level0")
    error = failure(case_dir)
    assert error.status is Status.PROFILER_FAILED
    assert "captured at Level0, although Level1" in error.message


@pytest.mark.parametrize("content", ["", "no json", "[]", '{"config": null}'])
def test_a_level_that_is_not_said_is_unknown(content: str, case_dir: Path) -> None:
    (output(case_dir) / "kernel_details.csv").write_text(ROWS)
    (case_dir / CAPTURE / "profiler_info.json").write_text(content)
    assert locate(case_dir).level == ""


def test_a_case_without_profile_json_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"profile\.json is missing"):
        locate(tmp_path)
