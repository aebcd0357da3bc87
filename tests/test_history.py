"""The history: what is written is read, machines merge by copying, and nothing is left out in silence."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from scripts import accepted, artifacts, case_section, cli, history, history_rows, page, peaks, series
from scripts.cases import Case, Settings
from scripts.errors import ConfigError
from scripts.history import History, HistoryRow, OpTime
from scripts.history_rows import RunFacts
from scripts.plan import PlannedCase
from scripts.verdicts import Verdict
from tests.records import failure_record, perf_record, profile_record, spread

START = datetime(2026, 6, 12, 2, tzinfo=UTC)
ROW = HistoryRow(
    run_id="20260612T020000Z-npu-7",
    run_started_at=START,
    host="npu-7",
    commit="abc",
    dirty=False,
    interrupted=False,
    case_id="attention_golden/p0",
    family="attention",
    tier="p0",
    status="ok",
    device_kind="npu",
    device_model="Ascend910B3",
    scope="device total, cold cache",
    e2e_us=245.3,
    kernels=7,
    measured_at=START + timedelta(minutes=1),
    iteration_us=[245.3, 244.1, 250.0],
    ops=[OpTime("MatMulV2", "AI_CORE", 2, 180.6), OpTime("SoftmaxV2", "AI_VECTOR_CORE", 1, 64.7)],
    folder="nights/20260612T020000Z-npu-7/first/attention_golden/p0/key",
)
FAILED = replace(ROW, case_id="rms_norm_golden/p0", status="golden_failed", reason="IndexError", e2e_us=None, ops=[])


def run(host: str, days: int) -> HistoryRow:
    start = START + timedelta(days=days)
    return replace(ROW, run_id=f"{start:%Y%m%dT%H%M%SZ}-{host}", run_started_at=start, host=host)


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = history.write(tmp_path, [ROW, FAILED])
    assert path.name == f"{ROW.run_id}.parquet"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]  # no temporary file is left
    found = History(tmp_path)
    assert found.rows(found.runs()) == [ROW, FAILED]
    assert found.problems == []


def test_columns_that_are_not_asked_for_have_their_defaults(tmp_path: Path) -> None:
    history.write(tmp_path, [ROW])
    (row,) = History(tmp_path).rows([ROW.run_id], without=["ops", "iteration_us"])
    assert row == replace(ROW, ops=[], iteration_us=[])


def test_histories_of_two_machines_merge_by_copying(tmp_path: Path) -> None:
    for host, days in (("npu-7", 0), ("npu-7", 2), ("npu-9", 1)):
        history.write(tmp_path / host, [run(host, days)])
    for path in (tmp_path / "npu-9").iterdir():
        shutil.copy(path, tmp_path / "npu-7")
    merged = History(tmp_path / "npu-7")
    assert [run_id[-5:] for run_id in merged.runs()] == ["npu-7", "npu-9", "npu-7"]


def test_runs_on_other_device_models_are_left_out_where_that_is_asked(tmp_path: Path) -> None:
    failed = {"status": "timeout", "device_model": "", "e2e_us": None}
    other = replace(run("gpu-1", 1), device_model="NVIDIA H200")
    last = run("npu-7", 3)
    for rows in ([ROW], [other], [replace(run("npu-7", 2), **failed)], [last, replace(last, **failed)]):
        history.write(tmp_path, rows)
    found = History(tmp_path)
    assert len(found.runs()) == 4
    assert found.runs(["Ascend910B3"]) == [ROW.run_id, run("npu-7", 2).run_id, last.run_id]


def test_a_resumed_run_replaces_its_own_file_only(tmp_path: Path) -> None:
    history.write(tmp_path, [replace(ROW, interrupted=True, status="not_run", e2e_us=None)])
    history.write(tmp_path, [run("npu-7", 1)])
    history.write(tmp_path, [ROW])
    found = History(tmp_path)
    assert found.rows(found.runs()) == [ROW, run("npu-7", 1)]


def test_files_that_cannot_be_read_are_named_and_the_rest_is(tmp_path: Path) -> None:
    good = history.write(tmp_path, [ROW])
    (tmp_path / "torn.parquet").write_bytes(good.read_bytes()[:-40])
    shutil.copy(good, tmp_path / "copy.parquet")
    parquet.write_table(pyarrow.table({"x": [1]}), tmp_path / "other.parquet")
    _with_version(good, tmp_path / "newer.parquet", str(history.SCHEMA_VERSION + 1))
    found = History(tmp_path)
    assert found.rows(found.runs()) == [ROW]
    words = dict(zip(["copy", "newer", "other", "torn"], found.problems, strict=True))
    assert "copy of run" in words["copy"]
    assert "newer than" in words["newer"]
    assert "not a run's history" in words["other"]
    assert "no readable Parquet file" in words["torn"]


def test_a_file_without_later_columns_is_read_with_their_defaults(tmp_path: Path) -> None:
    path = history.write(tmp_path, [ROW])
    table = parquet.read_table(path)
    parquet.write_table(table.drop_columns(["ops", "host_wall_us", "measurement", "stand_in"]), path)
    history.write(tmp_path, [run("npu-7", 1)])
    found = History(tmp_path)
    assert found.rows(found.runs()) == [replace(ROW, ops=[]), run("npu-7", 1)]


def test_a_file_that_is_torn_inside_is_named_when_it_is_read(tmp_path: Path) -> None:
    good = history.write(tmp_path, [ROW])
    bad = history.write(tmp_path, [run("npu-7", 1)])
    data = bytearray(bad.read_bytes())
    data[4:600] = bytes(596)
    bad.write_bytes(data)
    found = History(tmp_path)
    assert found.rows(found.runs()) == [ROW]
    (problem,) = found.problems
    assert problem.startswith(f"{bad} is damaged and is left out")
    assert good.exists()
    with pytest.raises(ConfigError, match="DESCRIBE history"):
        found.query("SELECT nothing FROM history")


def test_an_empty_folder_is_an_empty_history(tmp_path: Path) -> None:
    assert History(tmp_path / "none").runs() == []
    assert History(tmp_path / "none").rows([]) == []


def test_a_folder_with_a_quote_in_its_name_is_read(tmp_path: Path) -> None:
    history.write(tmp_path / "o'brien", [ROW])
    assert History(tmp_path / "o'brien").runs() == [ROW.run_id]


def test_questions_in_sql_are_answered_and_wrong_ones_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history.write(tmp_path, [ROW, FAILED])
    arguments = ["--csv", "--folder", str(tmp_path)]
    assert cli.main(["history", "SELECT case_id, e2e_us FROM history WHERE status = 'ok'", *arguments]) == 0
    assert capsys.readouterr().out == "case_id,e2e_us\nattention_golden/p0,245.3\n"
    assert cli.main(["history", "SELECT nothing FROM history", *arguments]) == 1
    said = capsys.readouterr().err
    assert "nothing" in said
    assert "`DESCRIBE history`" in said
    assert cli.main(["history", "DESCRIBE history", *arguments]) == 0
    assert "case_id" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="cannot be asked"):
        History(tmp_path).query("not SQL")


# ---------------------------------------------------------------- accepted changes


def test_accepted_changes_name_a_day_a_time_or_a_run(tmp_path: Path) -> None:
    path = tmp_path / "accepted.yaml"
    path.write_text(
        "- {case: attention_golden/*, since: 2026-06-12, why: float32 softmax}\n"
        f"- {{case: rms_norm_golden/p0, since: {ROW.run_id}, why: accuracy, device_model: Ascend910B3}}\n"
        "- {case: '*', since: '2026-06-12T04:30', why: new driver}\n"
    )
    day, run_start, moment = accepted.read(path, {ROW.run_id: START})
    assert day.since == datetime(2026, 6, 12, tzinfo=UTC)
    assert run_start.since == START
    assert moment.since == datetime(2026, 6, 12, 4, 30, tzinfo=UTC)
    assert day.covers("attention_golden/p0", "any")
    assert not day.covers("rms_norm_golden/p0", "any")
    assert run_start.covers("rms_norm_golden/p0", "Ascend910B3")
    assert not run_start.covers("rms_norm_golden/p0", "NVIDIA H200")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("case: x", "a list of entries"),
        ("- x", "no mapping"),
        ("- {case: x, since: 2026-06-12}", "why is missing"),
        ("- {case: x, sinc: 2026-06-12, why: y}", "Did you mean since"),
        ("- {case: x, since: soon, why: y}", "neither a time"),
        ("-\n  case: x\n  case: y\n  since: 2026-06-12\n  why: z", r"yaml:3"),
    ],
)
def test_a_wrong_entry_is_explained_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "accepted.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        accepted.read(path, {})


def test_no_file_means_nothing_is_accepted(tmp_path: Path) -> None:
    assert accepted.read(tmp_path / "none.yaml", {}) == []


def _with_version(source: Path, target: Path, version: str) -> None:
    table = parquet.read_table(source)
    metadata = {**table.schema.metadata, history.VERSION_KEY: version, history.RUN_KEY: target.stem}
    parquet.write_table(table.replace_schema_metadata(metadata), target)


def test_the_row_of_a_result_holds_its_numbers_and_what_may_move_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    case = Case("attention_golden", "p0", "golden/a.py", None, "B", (), Settings(), "attention", "p0")
    planned = PlannedCase(case, "0123456789ab-npu-01234567", root="nights/run/first")
    facts = RunFacts("run", START, "npu-7", "abc", dirty=True)
    assert history_rows.rows([planned], facts)[0].interrupted
    perf = perf_record(profile_record(case="p0", key=planned.key, environment={"threads": "4"}))
    artifacts.write(planned.folder / "perf.json", perf)
    (row,) = history_rows.rows([planned], facts)
    assert (row.status, row.interrupted, row.dirty) == ("ok", False, True)
    assert row.e2e_us == float(perf.e2e_us) == sum(op.total_us for op in row.ops)
    assert row.inputs.startswith("q: bfloat16[2, 8, 512, 64], k: ")
    assert row.dtypes == ["bfloat16"]
    found = json.loads(row.conditions)
    assert (found["torch"], found["threads"], found["code"], found["iterations"]) == (
        "2.13.0",
        "4",
        "0123456789ab",
        "3",
    )
    disturbed = replace(perf, host_wall=spread("1"), warnings=["Ask for Level1."])
    artifacts.write(planned.folder / "perf.json", disturbed)
    (row,) = history_rows.rows([planned], facts)
    assert row.warnings == case_section.warnings(disturbed)
    assert "Do not use its E2E" in row.warnings[-1]
    peaks.path_of(planned.key).parent.mkdir(parents=True)
    peaks.path_of(planned.key).write_text("{")
    (row,) = history_rows.rows([planned], facts)
    assert row.e2e_us == float(perf.e2e_us)
    assert "peaks.json cannot be read" in row.warnings[-1]
    artifacts.write(planned.folder / "failure.json", failure_record("attention_golden", "p0", key=planned.key))
    (row,) = history_rows.rows([planned], facts)
    assert (row.status, row.e2e_us) == ("golden_failed", None)
    history.write(tmp_path / "history", [row])
    assert History(tmp_path / "history").rows(["run"]) == [row]


def test_a_series_is_of_one_device_and_a_rename_keeps_it(tmp_path: Path) -> None:
    for i in range(9):
        other = replace(run("npu-9", i), device_model="NVIDIA H200", e2e_us=50.0, run_id=f"other{i}")
        history.write(
            tmp_path, [replace(run("npu-7", i), case_id="old_golden/p0" if i < 6 else ROW.case_id, e2e_us=100.0)]
        )
        history.write(tmp_path, [other])
    last = replace(run("npu-7", 8), e2e_us=100.0)
    facts = RunFacts(last.run_id, last.run_started_at, last.host)
    past = page.past_of(History(tmp_path), facts, [last], judged=True, renamed={"old_golden/p0": ROW.case_id})
    (found,) = past.series.values()
    assert (found.device_model, len(found.points)) == ("Ascend910B3", 9)
    assert found.last.verdict is Verdict.SAME
    assert found.last.baseline_us == 100


def test_a_failed_night_stands_in_the_series_of_every_device() -> None:
    rows = [run("npu-7", 0), replace(run("npu-7", 1), status="timeout", device_model="", e2e_us=None), run("npu-7", 2)]
    (found,) = series.of(rows)
    assert [point.value_us for point in found.points] == [245.3, None, 245.3]
