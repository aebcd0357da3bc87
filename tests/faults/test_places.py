"""Where and under what a run may have to live: odd folders, a bare environment, few resources, and nothing writable."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import artifacts
from scripts.status import Status
from scripts.warm import protocol
from tests.faults.conftest import QUICK, X
from tests.records import failure_record
from tests.workflow.conftest import Project, Run

SECRET = "hunter2-shall-not-be-written"
CASES = f"""
    defaults: {{{QUICK}}}
    operators:
      small_golden: {{golden: golden/small_golden.py, mode: A, cases: {{case: {{{X}}}}}}}
      secret_golden: {{golden: golden/secret_golden.py, mode: A, cases: {{case: {{{X}}}}}}}
"""
NAME = "a folder with spaces, ünïcödé, 'quotes' $HOME {braces} and a name of 200 characters "
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file system")


def few_resources() -> None:
    """In the child before it starts: few descriptors, one CPU, files that nobody else may read."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.umask(0o077)


@pytest.fixture(scope="module")
def hostile(faulty_project: Callable[[str], Project]) -> tuple[Project, Run]:
    """One run under everything at once: if any of it were a problem, this run would not finish."""
    project = faulty_project(NAME + "x" * (200 - len(NAME)))
    project.cases(CASES)
    temporary = project.path.parent / ("temporary-" + "y" * 90)
    temporary.mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "TMPDIR": str(temporary),
        "GOLDENPROF_LOCK_DIR": os.environ["GOLDENPROF_LOCK_DIR"],
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "PASSWORD": SECRET,
    }  # neither HOME nor USER
    alone = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []
    targets = ["reports/small_golden/case.md", "reports/secret_golden/case.md", "reports/summary.md"]
    done = subprocess.run(
        [*alone, *project.command("-j1", *targets)],
        cwd=project.path,
        env=environment,
        preexec_fn=few_resources,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=300,
    )
    return project, Run(done.returncode, (done.stdout + done.stderr).decode())


def test_a_hostile_environment_changes_nothing(hostile: tuple[Project, Run]) -> None:
    """A path with spaces, unicode and 200 characters; no HOME, no network, locale C, one CPU, 128 descriptors."""
    project, run = hostile
    assert project.report("small_golden/case"), run.output
    perf = project.perf("small_golden/case")
    assert perf.cross_check.agrees
    assert perf.profile.environment["threads"] == "1"
    assert project.failure("secret_golden/case").status is Status.GOLDEN_FAILED
    assert "Traceback" not in run.output and '.smk", line' not in run.output


def test_no_secret_of_the_environment_is_written_anywhere(hostile: tuple[Project, Run]) -> None:
    project, run = hostile
    files = [path for path in project.path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in run.output


def test_with_umask_0077_nobody_else_can_read_what_is_made(hostile: tuple[Project, Run]) -> None:
    for path in [hostile[0].folder("small_golden/case"), hostile[0].path / "reports/small_golden/case.md"]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize(("mask", "mode"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_records_have_the_mode_that_the_umask_leaves(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        artifacts.write(tmp_path / "failure.json", failure_record())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "failure.json").stat().st_mode) == mode


def test_a_temporary_folder_with_a_long_name_is_not_used_for_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp/" + "z" * 200)
    assert len(str(protocol.socket_path("host:1"))) < 100


def test_containers_that_share_a_folder_do_not_share_a_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    own = protocol.socket_path("host:1")
    monkeypatch.setattr(protocol.os, "readlink", lambda path: "pid:[1]")
    assert protocol.socket_path("host:1") != own


# ---------------------------------------------------------------- what is in the way, and is gone in the next run


def _prof_is_a_file(project: Project) -> Callable[[], None]:
    (project.path / "prof").write_text("in the way")
    return (project.path / "prof").unlink


def _reports_is_a_file(project: Project) -> Callable[[], None]:
    (project.path / "reports").write_text("in the way")
    return (project.path / "reports").unlink


def _operator_is_a_file(project: Project) -> Callable[[], None]:
    (project.path / "prof").mkdir(exist_ok=True)
    path = project.path / "prof/small_golden"
    path.write_text("in the way")
    return path.unlink


def _mounted(project: Project, *options: str) -> Callable[[], None]:
    (project.path / "prof").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", *options, "none", str(project.path / "prof")], check=True)
    return lambda: subprocess.run(["umount", str(project.path / "prof")], check=True)


def _prof_is_read_only(project: Project) -> Callable[[], None]:
    return _mounted(project, "-o", "ro")


def _prof_is_full(project: Project) -> Callable[[], None]:
    return _mounted(project, "-o", "size=12k")


OBSTACLES = {
    "prof is a file": _prof_is_a_file,
    "the operator's folder is a file": _operator_is_a_file,
    "prof is read-only": _prof_is_read_only,
    "prof is full": _prof_is_full,
    "reports is a file": _reports_is_a_file,  # the last one, since it stops the report alone
}
MOUNTED = ("prof is read-only", "prof is full")


@pytest.fixture(scope="module")
def obstructed(faulty_project: Callable[[str], Project]) -> dict[str, tuple[Run, list[str]]]:
    """One project: a run with each obstacle, and what processes it left; then one without any."""
    project = faulty_project("obstructed")
    project.cases(CASES)
    found = {}
    for name, put in OBSTACLES.items():
        if name in MOUNTED and os.geteuid() != 0:
            continue
        remove = put(project)
        try:
            run = project.run("-j1", "reports/small_golden/case.md")
            found[name] = run, project.processes_after_a_moment(20)
        finally:
            remove()
        assert not (project.path / "reports/small_golden/case.md").exists()
    found["nothing"] = project.run("-j1", "reports/small_golden/case.md"), []
    assert project.perf("small_golden/case").cross_check.agrees
    return found


@pytest.mark.parametrize(
    "obstacle", [pytest.param(name, marks=root_only if name in MOUNTED else ()) for name in OBSTACLES]
)
def test_an_obstacle_fails_its_run_and_leaves_no_process(
    obstructed: dict[str, tuple[Run, list[str]]], obstacle: str
) -> None:
    run, left = obstructed[obstacle]
    assert run.code == 1
    assert left == []


def test_the_run_after_the_obstacles_finishes(obstructed: dict[str, tuple[Run, list[str]]]) -> None:
    run, _ = obstructed["nothing"]
    assert run.code == 0, run.output


def test_prof_may_be_a_link_to_another_disk(faulty_project: Callable[[str], Project], tmp_path: Path) -> None:
    project = faulty_project("linked")
    project.cases(CASES)
    (project.path / "prof").symlink_to(tmp_path)
    run = project.run("-j1", "reports/small_golden/case.md")
    assert run.code == 0, run.output
    assert list(tmp_path.glob("small_golden/case/*-cpu-*/perf.json"))
