"""Nights without the workflow: which one goes on, what it is judged by, what it comes to, and what is kept of it."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from scripts import artifacts, history, nightly, workflow_steps
from scripts.history import History
from scripts.night import Night, Outcome, VerdictsRecord, choose
from scripts.plan import Plan, PlannedCase
from scripts.verdicts import Verdict
from tests.records import failure_record, perf_record, profile_record

CASES = """
operators:
  small_golden:
    golden: golden/small_golden.py
    mode: A
    cases:
      one: {inputs: {x: {shape: [8], dtype: float32}}}
      two: {inputs: {x: {shape: [9], dtype: float32}}}
"""
ONE, TWO = "small_golden/one", "small_golden/two"
NOW = datetime.now(UTC).replace(microsecond=0)
QUIET = ("100", "100.4", "99.7", "100.1", "99.9", "100.3", "99.8", "100.2")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "golden").mkdir()
    (tmp_path / "config/cases.yaml").write_text(CASES)
    (tmp_path / "golden/small_golden.py").write_text("def small_golden(x):\n    return x + 1\n")
    yield tmp_path


def begun(at: datetime = NOW, **config: str) -> Night:
    """A night that is chosen and begun at `at`."""
    night = choose(Plan.load(config), at)
    night.begin()
    return night


def measured(planned: PlannedCase, total: str) -> None:
    """A result of one case, as the workflow leaves it."""
    case = planned.case
    perf = perf_record(
        profile_record(operator=case.operator, case=case.case, key=planned.key), ops=[("Add", "AIV", 1, total)]
    )
    artifacts.write(planned.folder / "perf.json", perf)


def over(at: datetime, totals: dict[str, str], **config: str) -> VerdictsRecord:
    """A night that measures its cases and ends."""
    night = begun(at, **config)
    for case, total in totals.items():
        measured(night.first.by_id[case], total)
    return night.conclude()


def past(count: int = len(QUIET)) -> None:
    """Quiet nights, the last of them yesterday."""
    for i in range(count):
        over(NOW - timedelta(days=count - i), {ONE: QUIET[i], TWO: QUIET[i]})


def words(record: VerdictsRecord) -> dict[str, Verdict]:
    return {case.case: case.verdict for case in record.cases}


# ---------------------------------------------------------------- what a night is judged by


def test_a_night_before_later_dated_ones_is_judged_by_those_before_it() -> None:
    """A clock was set back, or a night is gone on with late."""
    past()
    over(NOW + timedelta(days=2), {ONE: "300", TWO: "300"}, run="from-the-future")
    record = over(NOW, {ONE: "100", TWO: "130"})
    assert words(record) == {ONE: Verdict.SAME, TWO: Verdict.SUSPICIOUS}
    (note,) = record.problems
    assert note.startswith("1 recorded night began after this one, the latest is from-the-future")
    assert len(History().rows([record.run_id])) == 2


def test_nights_of_other_machines_push_none_of_its_own_out() -> None:
    past()
    mine = History().rows(History().runs())
    for i in range(100):
        at = NOW - timedelta(hours=i)
        rows = [replace(row, run_id=f"other{i}", run_started_at=at, device_model="another") for row in mine[:2]]
        history.write(history.FOLDER, rows)
    assert words(over(NOW, {ONE: "100", TWO: "100"})) == {ONE: Verdict.SAME, TWO: Verdict.SAME}


def test_a_case_that_fails_in_the_night_of_another_cache_mode_has_no_result() -> None:
    past()
    night = begun(cache="warm")
    for planned in night.first.sweep():
        artifacts.write(planned.folder / "failure.json", failure_record(planned.case.operator, planned.case.case))
    record = night.conclude()
    assert words(record) == {ONE: Verdict.NO_RESULT, TWO: Verdict.NO_RESULT}
    assert record.outcome is Outcome.NOTHING


def test_a_change_that_was_accepted_stays_so_after_a_rename(project: Path) -> None:
    past()
    (project / "config/accepted_changes.yaml").write_text(
        f"- {{case: small_golden/*, since: '{NOW:%Y-%m-%dT%H:%M:%S}', why: float32 inside}}\n"
    )
    renamed = CASES.replace(
        "small_golden:\n", "tiny_golden:\n    aliases: [small_golden]\n    function: small_golden\n"
    )
    (project / "config/cases.yaml").write_text(renamed)
    record = over(NOW, {"tiny_golden/one": "130", "tiny_golden/two": "130"})
    assert set(words(record).values()) == {Verdict.NOT_ENOUGH_HISTORY}


def test_an_accepted_change_of_no_case_is_named(project: Path) -> None:
    past()
    entries = (
        "- {case: small_goldne/one, since: 2026-06-12, why: x}\n- {case: small_golden/*, since: 2036-06-12, why: y}\n"
    )
    (project / "config/accepted_changes.yaml").write_text(entries)
    record = over(NOW, {ONE: "100", TWO: "100"})
    (note,) = record.problems
    assert note.startswith('config/accepted_changes.yaml: "small_goldne/one" is no case of these nights')
    assert "Did you mean small_golden/one" in note
    assert set(words(record).values()) == {Verdict.SAME}  # what is accepted from a later day on is no matter yet
    assert '"accepted":[]' in Path("reports/index.html").read_text()


def test_a_removed_operator_is_no_case_of_the_night(project: Path) -> None:
    past()
    (project / "config/cases.yaml").write_text(CASES.replace("      two:", "      # two:"))
    assert words(over(NOW, {ONE: "100"})) == {ONE: Verdict.SAME}


# ---------------------------------------------------------------- which night


def test_a_night_that_was_cut_short_goes_on_whatever_ended_since_under_another_name() -> None:
    begun(NOW - timedelta(hours=3))
    over(NOW - timedelta(hours=2), {ONE: "100", TWO: "100"}, run="zz-by-hand")
    assert begun().run.started_at == NOW - timedelta(hours=3)


@pytest.mark.parametrize(
    "change", ["too long ago", "other settings", "other code", "another host", "over", "unreadable"]
)
def test_any_other_night_begins_anew(change: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    night = begun(NOW - timedelta(hours=13 if change == "too long ago" else 3))
    if change == "other code":
        (project / "golden/small_golden.py").write_text("def small_golden(x):\n    return x + 2\n")
    if change == "another host":
        monkeypatch.setattr(platform, "node", lambda: "another")
    if change == "over":
        measured(night.first.by_id[ONE], "100")
        measured(night.first.by_id[TWO], "100")
        night.conclude()
    if change == "unreadable":
        (night.folder / "verdicts.json").write_text('{"kind": "verdicts", "schema_version": 99}')
    assert begun(**({"iterations": "7"} if change == "other settings" else {})).run.started_at == NOW


def test_a_night_goes_on_in_another_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    begun(NOW - timedelta(hours=3))
    for zone in ("Asia/Shanghai", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert begun().run.started_at == NOW - timedelta(hours=3)
    monkeypatch.delenv("TZ")
    time.tzset()


def test_what_a_killed_night_measured_is_in_the_history_when_the_next_begins(project: Path) -> None:
    killed = begun(NOW - timedelta(hours=20))
    measured(killed.first.by_id[ONE], "100")
    (project / "config/cases.yaml").write_text(
        CASES.replace("small_golden:", "other_golden:\n    function: small_golden")
    )
    following = begun()
    rows = {row.case_id: row for row in History().rows(History().runs())}
    assert {row.run_id for row in rows.values()} == {killed.run.run_id} != {following.run.run_id}
    assert (rows[ONE].status, rows[ONE].e2e_us, rows[ONE].interrupted) == ("ok", 100.0, True)
    assert (rows[TWO].status, rows[TWO].run_started_at) == ("not_run", killed.run.started_at)


# ---------------------------------------------------------------- what it comes to


def test_a_night_without_all_its_cases_is_interrupted() -> None:
    night = begun()
    measured(night.first.by_id[ONE], "100")
    record = night.conclude()
    assert (record.outcome, record.outcome.exit_code) == (Outcome.INTERRUPTED, 5)
    assert {row.status for row in History().rows([record.run_id])} == {"ok", "not_run"}
    again = begun()
    assert again.run == night.run
    assert not (night.folder / "verdicts.json").exists()


def test_second_measurements_that_are_cut_short_interrupt_a_night_and_are_gone_on_with() -> None:
    past()
    first = over(NOW, {ONE: "130", TWO: "130"})
    assert (first.outcome, first.to_measure_again) == (Outcome.OK, [ONE, TWO])

    def second_part() -> Night:
        night = choose(Plan.load({"run": first.run_id}), NOW)
        night.second_results()
        night.begin()
        return night

    killed = second_part()
    measured(killed.second.by_id[ONE], "130")
    assert begun().run.run_id == first.run_id  # killed: no verdicts are left
    over(NOW, {}, run=first.run_id)  # … which the first part of the workflow makes again
    stopped = second_part().conclude()
    assert (stopped.outcome, stopped.to_measure_again) == (Outcome.INTERRUPTED, [TWO])
    assert begun().run.run_id == first.run_id
    assert over(NOW, {}, run=first.run_id).to_measure_again == [TWO]
    last = second_part()
    artifacts.write(last.second.by_id[TWO].folder / "failure.json", failure_record("small_golden", "two"))
    record = last.conclude()
    assert (record.outcome, record.to_measure_again) == (Outcome.REGRESSIONS, [])
    assert words(record) == {ONE: Verdict.REGRESSION, TWO: Verdict.SUSPICIOUS}


def test_a_stop_does_not_wait_for_a_lock_that_the_stopped_code_holds() -> None:
    """Snakemake's scheduler takes its lock in its handler of SIGTERM, too."""
    lock, got = threading.Lock(), []
    before = signal.signal(signal.SIGTERM, lambda *_: got.append(lock.acquire(timeout=10)))
    try:
        workflow_steps.be_stoppable()
        with lock:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            assert got == []
        deadline = time.monotonic() + 10
        while not got and time.monotonic() < deadline:
            time.sleep(0.01)
        assert got == [True]
    finally:
        signal.signal(signal.SIGTERM, before)


# ---------------------------------------------------------------- what is kept


def test_the_latest_nights_keep_their_captures_whatever_they_are_called() -> None:
    names = ["c-first", "a-second", "b-third"]
    for i, name in enumerate(names):
        over(NOW - timedelta(days=3 - i), {ONE: "100", TWO: "100"}, run=name)
        os.utime(f"nights/{name}/lock.json", (i, i))
    gone = nightly.prune(2)
    assert gone == [Path("nights/c-first/first")]
    assert [Path(f"nights/{name}/first").exists() for name in names] == [False, True, True]
    assert Path("nights/c-first/verdicts.json").exists()
