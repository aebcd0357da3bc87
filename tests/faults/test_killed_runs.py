"""Runs that are killed, started twice, or cut off by the power: nothing is lost, and the next plain run finishes."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts import artifacts
from scripts.artifacts import ProfileRecord
from scripts.errors import ArtifactError
from scripts.warm.output import Output
from tests.faults.conftest import X
from tests.workflow.conftest import ROOT, Project, Run

SLEEPY = "import time\n\ndef sleepy_golden(x):\n    time.sleep(0.2)\n    return x + 1\n"
THREE = f"a: {{{X}}}, b: {{seed: 1, {X}}}, c: {{seed: 2, {X}}}"
REPORTS = [f"reports/sleepy_golden/{case}.md" for case in "abc"]
WAITING = """
import os, time

def sleepy_golden(x):
    while not os.path.exists("go"):
        time.sleep(0.05)
    return x + 1
"""
CASES = f"""
    defaults: {{warmup: 1, iterations: 2, noise_mib: 1}}
    operators:
      sleepy_golden: {{golden: golden/sleepy_golden.py, mode: A, cases: {{{THREE}}}}}
"""


@pytest.fixture(scope="module")
def sleepy(faulty_project: Callable[[str], Project]) -> Project:
    project = faulty_project("killed")
    project.golden("sleepy_golden", SLEEPY)
    project.cases(CASES)
    return project


def start(project: Project, *arguments: str) -> subprocess.Popen[str]:
    log = (project.path / f"run-{time.monotonic_ns()}.log").open("w+")
    process = subprocess.Popen(
        project.command(*arguments), cwd=project.path, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    process.log = Path(log.name)
    return process


def ended(process: subprocess.Popen[str], timeout_s: float = 120) -> Run:
    code = process.wait(timeout_s)
    return Run(code, process.log.read_text())


def wait_for_profile(process: subprocess.Popen[str]) -> None:
    """Until the run measures its first case."""
    deadline = time.monotonic() + 90
    while "profile of sleepy_golden" not in process.log.read_text():
        assert process.poll() is None and time.monotonic() < deadline, process.log.read_text()
        time.sleep(0.05)
    time.sleep(0.3)


@pytest.fixture(scope="module")
def killed(sleepy: Project) -> Iterator[dict[str, object]]:
    """The same sweep, killed in three ways one after the other while it measures; then left alone."""
    left, codes = {}, {}
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        process = start(sleepy, "-j1", *REPORTS)
        wait_for_profile(process)
        process.send_signal(number)
        codes[number] = ended(process)
        left[number] = sleepy.processes_after_a_moment(20)
    yield {"left": left, "runs": codes, "last": sleepy.run("-j1", *REPORTS), "again": sleepy.run("-n", *REPORTS)}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_run_that_is_killed_leaves_no_process(killed: dict, number: signal.Signals) -> None:
    assert killed["runs"][number].code != 0
    assert killed["left"][number] == []


def test_the_run_after_a_killed_one_needs_no_unlocking(killed: dict) -> None:
    assert "its locks were removed" in killed["runs"][signal.SIGTERM].output
    assert "cannot be locked" not in killed["runs"][signal.SIGTERM].output


def test_the_run_after_killed_ones_finishes_by_itself(killed: dict, sleepy: Project) -> None:
    assert killed["last"].code == 0, killed["last"].output
    assert killed["again"].nothing_to_do
    for case in "abc":
        perf = sleepy.perf(f"sleepy_golden/{case}")
        assert {total.kernels for total in perf.iterations} == {2}
        assert perf.cross_check.agrees


def test_what_was_measured_before_a_kill_is_not_measured_again(killed: dict, sleepy: Project) -> None:
    assert killed["last"].finished.count("profile") <= 3
    assert len(list((sleepy.path / "prof/sleepy_golden").glob("*/*-cpu-*/*_ascend_pt"))) == 3


def test_no_temporary_file_is_left_in_the_cache(killed: dict, sleepy: Project) -> None:
    names = {path.name for path in (sleepy.path / "prof").glob("sleepy_golden/*/*/*")}
    assert not [name for name in names if name.startswith(".")]


def test_two_runs_at_once(faulty_project: Callable[[str], Project]) -> None:
    """Of the same target the second is refused and changes nothing; another target's run goes on beside it."""
    project = faulty_project("twice")
    project.golden("sleepy_golden", WAITING)
    project.cases(CASES)
    first = start(project, "-j1", "reports/sleepy_golden/a.md")
    wait_for_profile(first)
    same = start(project, "-j1", "reports/sleepy_golden/a.md")
    other = start(project, "-j1", "reports/sleepy_golden/b.md")
    refused = ended(same)
    (project.path / "go").touch()
    assert refused.code == 1
    assert "cannot be locked" in refused.output
    assert "Traceback" not in refused.output and '.smk", line' not in refused.output
    for process in (first, other):
        run = ended(process)
        assert run.code == 0, run.output
    assert project.perf("sleepy_golden/a").cross_check.agrees
    assert project.perf("sleepy_golden/b").cross_check.agrees
    assert project.processes_after_a_moment(20) == []


def test_two_runs_without_snakemakes_locks_never_do_the_same_step(tmp_path: Path) -> None:
    log = tmp_path / "case/profile.log"
    output, writer = Output.open(log, fresh=True)
    os.write(output.log, b"kept")
    with pytest.raises(BlockingIOError, match="another run is at work"):
        Output.open(log, fresh=True)
    assert log.read_bytes() == b"kept"
    os.close(writer)
    output.close()
    again, writer = Output.open(log, fresh=True)
    assert log.read_bytes() == b""
    os.close(writer)
    again.close()


JOIN = "from scripts import stale_locks; stale_locks.join(); print('joined', flush=True); input()"


def joined(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", JOIN], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "joined\n"
    return process


def left_lock(folder: Path) -> Path:
    """A lock as Snakemake leaves it when it is killed."""
    path = folder / ".snakemake/locks/0.output.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("reports/a/b.md\n")
    return path


def test_locks_of_a_dead_run_are_removed_and_said(tmp_path: Path) -> None:
    lock = left_lock(tmp_path)
    _, said = joined(tmp_path).communicate("\n", 30)
    assert not lock.exists()
    assert "killed" in said


def test_locks_of_a_living_run_stay(tmp_path: Path) -> None:
    living = joined(tmp_path)
    lock = left_lock(tmp_path)
    _, said = joined(tmp_path).communicate("\n", 30)
    assert lock.exists()
    assert said == ""
    living.kill()
    living.wait()
    joined(tmp_path).communicate("\n", 30)
    assert not lock.exists()


def test_locks_of_another_hosts_run_stay(tmp_path: Path) -> None:
    lock = left_lock(tmp_path)
    presence = tmp_path / ".snakemake/goldenprof/presence"
    presence.parent.mkdir(parents=True)
    presence.write_text("another-host")
    joined(tmp_path).communicate("\n", 30)
    assert lock.exists()
    assert presence.read_text() == platform.node()


# ---------------------------------------------------------------- what a power cut leaves: files without their content


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


def _zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _newer(path: Path) -> None:
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "schema_version": 99}))


# case → (what is damaged, how, files of the case that are removed, because they were never written or too old to use)
DAMAGED = {
    "profile_emptied": ("profile.json", _emptied, ("output.json", "perf.json")),
    "profile_zeroed": ("profile.json", _zeroed, ("perf.json",)),
    "output_cut": ("output.json", _cut, ("perf.json",)),
    "perf_emptied": ("perf.json", _emptied, ()),
    "inputs_emptied": ("inputs.json", _emptied, ("profile.json", "output.json", "perf.json")),
    "tensors_cut": ("inputs.pt", _cut, ("profile.json", "output.json", "perf.json")),
    "failure_zeroed": ("failure.json", _zeroed, ("perf.json",)),
}
FOREIGN = {"profile_newer": ("profile.json", _newer, ("output.json", "perf.json"))}


@pytest.fixture(scope="module")
def damaged(faulty_project: Callable[[str], Project]) -> dict[str, object]:
    project = faulty_project("damaged")
    cases = ", ".join(f"{name}: {{seed: {k}, {X}}}" for k, name in enumerate((*DAMAGED, *FOREIGN)))
    project.cases(f"""
        defaults: {{warmup: 1, iterations: 2, noise_mib: 1, keep_inputs: true}}
        operators:
          small_golden: {{golden: golden/small_golden.py, mode: A, cases: {{{cases}}}}}
    """)
    reports = [f"reports/small_golden/{name}.md" for name in (*DAMAGED, *FOREIGN)]
    first = project.run("-j1", *reports)
    assert first.code == 0, first.output
    for path in (project.path / "prof").glob("**/*"):  # as if the clock had been set back by a day since
        os.utime(path, (time.time() + 86400, time.time() + 86400))
    calm = project.run("-n", *reports, TZ="Asia/Tokyo", LC_ALL="C")
    (project.folder("small_golden/failure_zeroed") / "failure.json").write_text("{}")
    for name, (file, damage, removed) in {**DAMAGED, **FOREIGN}.items():
        folder = project.folder(f"small_golden/{name}")
        damage(folder / file)
        for other in removed:
            (folder / other).unlink()
        (project.path / f"reports/small_golden/{name}.md").unlink()
    return {"project": project, "calm": calm, "run": project.run("-j1", *reports), "next": project.run("-j1", *reports)}


def test_a_clock_set_back_and_another_time_zone_measure_nothing_again(damaged: dict) -> None:
    assert "profile" not in damaged["calm"].planned
    assert "make_inputs" not in damaged["calm"].planned


def test_damaged_files_are_told_and_put_aside(damaged: dict) -> None:
    run = damaged["run"]
    assert run.code == 1
    assert "Traceback" not in run.output and '.smk", line' not in run.output
    for name in ("profile.json", "inputs.json", "inputs.pt"):
        assert f"{name} cannot be read" in " ".join(run.output.split())
    assert "(Done: it is now profile.json.damaged.)" in run.output


@pytest.mark.parametrize("case", DAMAGED)
def test_the_run_after_makes_damaged_files_anew(damaged: dict, case: str) -> None:
    project: Project = damaged["project"]
    assert project.perf(f"small_golden/{case}").cross_check.agrees
    assert project.report(f"small_golden/{case}")
    assert not (project.folder(f"small_golden/{case}") / "failure.json").exists()


def test_a_record_of_another_version_is_refused_and_kept(damaged: dict) -> None:
    project: Project = damaged["project"]
    path = project.folder("small_golden/profile_newer") / "profile.json"
    with pytest.raises(ArtifactError, match="schema_version 99"):
        artifacts.read(path, ProfileRecord)
    assert "schema_version 99" in damaged["next"].output
    assert not (project.path / "reports/small_golden/profile_newer.md").exists()
