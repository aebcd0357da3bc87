"""Nights through the real workflow: afresh, locked, recorded, judged, resumed, and their exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from scripts import artifacts, history
from scripts.history import History, HistoryRow
from scripts.night import VerdictsRecord
from scripts.night_lock import LockRecord
from tests.workflow.conftest import ROOT, SNAKEMAKE, Project, Run

CASES = """
    defaults: {warmup: 1, iterations: 5, noise_mib: 1}
    operators:
      small_golden:
        golden: golden/small_golden.py
        mode: A
        function: small_golden
        cases:
          one: {inputs: {x: {shape: [64, 256], dtype: float32}}}
          two: {inputs: {x: {shape: [128, 256], dtype: float32}}}
"""
BROKEN = """
      index_golden:
        golden: golden/broken_golden.py
        function: index_golden
        mode: A
        cases: {bad: {inputs: {x: {shape: [8, 16], dtype: float32}}}}
"""
ONE, TWO, BAD = "small_golden/one", "small_golden/two", "index_golden/bad"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "scripts.cli", "nightly", *arguments, "--", *SNAKEMAKE[3:]]


def begin(project: Project, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        cwd=project.path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def night(project: Project, *arguments: str) -> Run:
    started = begin(project, *arguments)
    output, _ = started.communicate(timeout=300)
    return Run(started.returncode, output)


def nights(project: Project) -> list[Path]:
    return sorted((project.path / "nights").iterdir())


def verdicts(folder: Path) -> VerdictsRecord:
    return artifacts.read(folder / "verdicts.json", VerdictsRecord)


def recorded(project: Project) -> list[HistoryRow]:
    found = History(project.path / "history")
    assert found.problems == []
    return found.rows(found.runs())


def add_past(project: Project) -> None:
    """Eight nights after the first: ONE took half a microsecond each time, TWO anything up to some milliseconds.

    Whatever a busy machine makes of tonight, ONE is slower and TWO is within its noise.
    """
    latest = [row for row in recorded(project) if row.run_id == nights(project)[-1].name]
    for i in range(8):
        at = latest[0].run_started_at + timedelta(milliseconds=1 + i)
        e2e_us = {ONE: 0.5 + i / 1e4, TWO: (100.0, 4000.0, 300.0, 3000.0, 600.0, 2000.0, 200.0, 3500.0)[i]}
        rows = [
            replace(row, run_id=f"past{i}", run_started_at=at, e2e_us=e2e_us[row.case_id], min_us=1e-3)
            for row in latest
            if row.e2e_us
        ]
        history.write(project.path / "history", rows)


@dataclass
class Story:
    """A sweep, a night by Snakemake itself, eight invented nights, a night by the wrapper, another seed."""

    project: Project
    cached: dict[Path, int]  # time stamps of what the sweep made
    runs: list[Run]
    folders: list[Path]


@pytest.fixture(scope="module")
def story(shared_project: Callable[[str], Project]) -> Story:
    project = shared_project("nights")
    project.cases(CASES)
    assert project.run("-j1").code == 0
    cached = stamps(project)
    plain = project.run("-j1", "nightly", "--config", "run=a")
    add_past(project)
    runs = [plain, night(project, "--config", "run=b"), night(project, "--once", "--config", "run=c", "seed=7")]
    return Story(project, cached, runs, nights(project))


def stamps(project: Project) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (project.path / "prof").rglob("*.json")}


def test_a_night_measures_every_case_afresh_and_leaves_the_cache_alone(story: Story) -> None:
    assert story.runs[0].code == 0, story.runs[0].output
    assert story.runs[0].finished.count("profile") == 2
    unchanged = [path for path, stamp in story.cached.items() if path.stat().st_mtime_ns == stamp]
    assert unchanged == list(story.cached)


def test_a_night_is_recorded_with_all_it_used(story: Story) -> None:
    rows = [row for row in recorded(story.project) if row.run_id == "a"]
    assert [(row.case_id, row.status, row.interrupted) for row in rows] == [(ONE, "ok", False), (TWO, "ok", False)]
    lock = artifacts.read(story.folders[0] / "lock.json", LockRecord)
    assert lock.run_id == "a"
    assert lock.packages["torch"]
    assert lock.devices[0].model == rows[0].device_model
    assert lock.ended_at > lock.started_at
    assert "Night a, begun" in (story.folders[0] / "index.html").read_text()
    assert "Night c, begun" in (story.project.path / "reports/index.html").read_text()


def test_inputs_are_the_same_bit_for_bit_until_the_seed_changes(story: Story) -> None:
    locks = [artifacts.read(folder / "lock.json", LockRecord) for folder in story.folders]
    hashes = [lock.cases[ONE].inputs_sha256["x"] for lock in locks]
    assert hashes[0] == hashes[1] != hashes[2]
    assert [case.verdict for case in verdicts(story.folders[2]).cases] == ["changed identity"] * 2


def test_a_regression_is_confirmed_at_once_and_named_alone(story: Story) -> None:
    done, folder = story.runs[1], story.folders[1]
    assert done.code == 4, done.output
    (named,) = [case for case in verdicts(folder).cases if case.verdict == "regression"]
    assert named.case == ONE
    assert "on two measurements in one night" in named.detail
    assert done.finished.count("profile") == 3
    again = [row.case_id for row in recorded(story.project) if row.run_id == "b" and row.measurement == 2]
    assert again == [ONE]
    assert f"{ONE}  regression" in done.output
    assert done.output.rstrip().endswith("Night b: regressions found.")


def test_programs_are_told_too(story: Story) -> None:
    folder = story.folders[1]
    suites = ET.parse(folder / "junit.xml").getroot()
    assert [case.get("name") for case in suites.iter("testcase") if case.find("failure") is not None] == ["one"]
    metric = 'goldenprof_case_regression{operator="small_golden",case="one"'
    assert [line[-1] for line in (folder / "goldenprof.prom").read_text().splitlines() if line.startswith(metric)] == [
        "1"
    ]
    assert f"| {ONE} | **regression** |" in (folder / "ci.md").read_text()
    cases = json.loads((folder / "summary.json").read_text())["cases"]
    assert [case["verdict"]["word"] for case in cases] == ["regression", "not precise enough"]


def test_snakemakes_own_report_holds_what_the_sweep_made(story: Story) -> None:
    made = story.project.run("--report", "report.html")
    assert made.code == 0, made.output
    for name in ("one.md", "summary.md", "index.html"):
        assert f"Adding {name}" in made.output
    assert "Kernels, spread and provenance of small_golden/one" in (story.project.path / "report.html").read_text()


def test_a_dry_run_begins_no_night(story: Story) -> None:
    dry = story.project.run("-n", "nightly", "--config", "run=d")
    assert re.search(r"^profile +2$", dry.output, re.MULTILINE), dry.output
    assert not (story.project.path / "nights/d").exists()


def test_failed_cases_are_in_the_history_and_in_the_exit_code(project: Project) -> None:
    project.cases(CASES + BROKEN)
    done = night(project)
    assert done.code == 2, done.output
    by_case = {row.case_id: row for row in recorded(project)}
    assert by_case[BAD].status == "golden_failed"
    assert "IndexError" in by_case[BAD].reason
    assert by_case[ONE].status == "ok"
    assert verdicts(nights(project)[0]).statuses == {"ok": 2, "golden_failed": 1}
    only_bad = night(project, "--config", "match=index_golden/*")
    assert only_bad.code == 3, only_bad.output


def test_a_night_that_cannot_begin_has_an_exit_code_of_its_own(project: Project) -> None:
    project.cases("operators: {x: {}}")
    assert night(project).code == 1
    assert not (project.path / "history").exists()


def test_a_night_that_was_killed_and_stopped_goes_on_under_its_own_id(project: Project) -> None:
    project.golden("slow_golden", "import time\n\n\ndef slow_golden(x):\n    time.sleep(0.4)\n    return x + 1\n")
    x = "{inputs: {x: {shape: [4], dtype: float32}}}"
    project.cases(f"""
    defaults: {{warmup: 1, iterations: 2, noise_mib: 1}}
    operators:
      slow_golden:
        golden: golden/slow_golden.py
        mode: A
        cases: {{first: {x}, second: {x}, third: {x}}}
""")
    started = begin(project)
    profiled = wait_for(lambda: list((project.path / "nights").glob("*/first/slow_golden/*/*/profile.json")), 1)
    before = {path: path.stat().st_mtime_ns for path in profiled}
    os.killpg(started.pid, signal.SIGKILL)
    started.communicate()
    assert not (project.path / "history").exists()
    current = project.path / ".snakemake/goldenprof/night"
    current.unlink()
    started = begin(project)
    wait_for(lambda: [current] * current.exists(), 1)
    os.killpg(started.pid, signal.SIGTERM)
    output, _ = started.communicate(timeout=60)
    assert started.returncode == 5, output
    assert output.rstrip().endswith("interrupted.")
    assert "not_run" in {row.status for row in recorded(project)} <= {"ok", "not_run"}
    assert project.processes_after_a_moment() == []
    done = night(project)
    assert done.code == 0, done.output
    (folder,) = nights(project)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())
    assert done.finished.count("profile") == 3 - len(before)
    assert [row.case_id for row in recorded(project)] == [
        f"slow_golden/{case}" for case in ("first", "second", "third")
    ]
    assert verdicts(folder).outcome == "all ok"


def wait_for(find: Callable[[], list[Path]], count: int, seconds: float = 120) -> list[Path]:
    deadline = time.monotonic() + seconds
    while len(found := find()) < count:
        if time.monotonic() > deadline:
            pytest.fail(f"only {found} after {seconds} s")
        time.sleep(0.05)
    return found
