"""Goldens may do anything to their own process. They end in a status of their own, and the others never notice."""

from __future__ import annotations

import csv
from collections.abc import Callable

import pytest

from scripts.status import Status
from scripts.warm.output import MAX_LOG_BYTES
from tests.faults.conftest import QUICK, X
from tests.workflow.conftest import Project, Run

# golden → (status, words of the diagnosis); those that are OK have a report with right numbers
FAILING = {
    "abort_golden": (Status.GOLDEN_FAILED, ("SIGABRT",)),
    "hang_in_c_golden": (Status.TIMEOUT, ("timeout_s = 2 s",)),
    "stop_golden": (Status.TIMEOUT, ("timeout_s = 2 s",)),
    "deaf_hang_golden": (Status.TIMEOUT, ("timeout_s = 2 s",)),
    "kill_group_golden": (Status.GOLDEN_FAILED, ("SIGKILL",)),
    "memory_golden": (Status.GOLDEN_FAILED, ("memory", "Use smaller shapes")),
    "limited_memory_golden": (Status.GOLDEN_FAILED, ("memory", "Use smaller shapes")),
    "no_files_golden": (Status.PROFILER_FAILED, ("File too large",)),
    "closing_golden": (Status.GOLDEN_FAILED, ("closed file descriptors that it had not opened",)),
    "lock_closing_golden": (Status.GOLDEN_FAILED, ("lock of cpu was lost", "closerange")),
    "scribbling_golden": (Status.MISSING_OUTPUT, ("stranger_1_1_ascend_pt", "holds 2 captures")),
    "profiling_golden": (Status.PROFILER_FAILED, ("0 of the golden's calls", "must not use torch.profiler itself")),
    "exception_golden": (Status.GOLDEN_FAILED, ("BaseException", "neither Exception nor exit")),
    "interrupt_golden": (Status.GOLDEN_FAILED, ("KeyboardInterrupt", "nobody pressed Ctrl-C")),
    "deep_golden": (Status.GOLDEN_FAILED, ("RecursionError",)),
    "rude_message_golden": (Status.GOLDEN_FAILED, ("ValueError", "<script>alert(1)</script>")),
}
HARMLESS = (
    "handler_golden",
    "daemon_golden",
    "fork_golden",
    "thread_golden",
    "talkative_golden",
    "binary_talk_golden",
    "chdir_golden",
    "removed_folder_golden",
    "moody_golden",
    "deleting_golden",
    "silent_golden",
    "score_golden",
    "default_device_golden",
)


def _operator(function: str) -> str:
    file = "default_device_golden" if function == "default_device_golden" else "vandal_golden"
    limit = "timeout_s: 2," if FAILING.get(function, (None,))[0] is Status.TIMEOUT else ""
    return (
        f"  {function}: {{golden: golden/{file}.py, function: {function}, mode: A, {limit} cases: {{case: {{{X}}}}}}}\n"
    )


@pytest.fixture(scope="module")
def vandals(faulty_project: Callable[[str], Project]) -> tuple[Project, Run]:
    project = faulty_project("vandals")
    text = f"defaults: {{{QUICK}, timeout_s: 60}}\noperators:\n"
    text += f"  small_golden: {{golden: golden/small_golden.py, mode: A, cases: {{before: {{{X}}}, after: {{{X}}}}}}}\n"
    for function in (*FAILING, *HARMLESS):
        text += _operator(function)
    project.cases(text)
    return project, project.run("-j1")


@pytest.mark.parametrize("golden", FAILING)
def test_a_vandal_is_diagnosed(vandals: tuple[Project, Run], golden: str) -> None:
    project, _ = vandals
    status, words = FAILING[golden]
    failure = project.failure(f"{golden}/case")
    assert failure.status is status, failure.message
    for word in words:
        assert word in failure.message + failure.advice
    assert not (project.path / f"reports/{golden}/case.md").exists()


@pytest.mark.parametrize("golden", HARMLESS)
def test_a_vandal_that_harms_nobody_is_measured(vandals: tuple[Project, Run], golden: str) -> None:
    project, run = vandals
    case = f"{golden}/case"
    assert not (project.folder(case) / "failure.json").exists(), project.failure(case).message
    perf = project.perf(case)
    assert {op.op for op in perf.ops} == {"aten::add", "aten::copy_"}
    assert perf.cross_check.agrees
    assert {total.kernels for total in perf.iterations} == {2}
    assert project.report(case)
    assert run.code == 1  # for the others


def test_a_log_keeps_the_first_megabytes_and_says_so(vandals: tuple[Project, Run]) -> None:
    log = vandals[0].folder("talkative_golden/case") / "profile.log"
    assert MAX_LOG_BYTES < log.stat().st_size < MAX_LOG_BYTES + 1000
    assert b"is left out" in log.read_bytes()[-200:]


def test_a_golden_is_the_first_to_be_killed_when_memory_runs_out(vandals: tuple[Project, Run]) -> None:
    assert "score: 1000" in (vandals[0].folder("score_golden/case") / "profile.log").read_text()


def test_a_vandal_changes_no_other_case(vandals: tuple[Project, Run]) -> None:
    project, _ = vandals
    before, after = project.perf("small_golden/before"), project.perf("small_golden/after")
    assert before.profile.inputs == after.profile.inputs
    assert before.profile.outputs == after.profile.outputs
    assert before.profile.environment["threads"] == after.profile.environment["threads"]
    assert {op.op for op in before.ops} == {op.op for op in after.ops} == {"aten::add", "aten::mul", "aten::copy_"}


def test_the_summary_of_a_sweep_of_vandals_is_whole(vandals: tuple[Project, Run]) -> None:
    with (vandals[0].path / "reports/summary.csv").open() as file:
        found = {row["operator"]: row["status"] for row in csv.DictReader(file)}
    expected = {golden: status.value for golden, (status, _) in FAILING.items()}
    assert found == {**expected, **dict.fromkeys((*HARMLESS, "small_golden"), "ok")}


def test_no_vandal_leaves_a_process(vandals: tuple[Project, Run]) -> None:
    assert vandals[0].processes_after_a_moment() == []


def test_a_golden_cannot_reach_the_terminal_or_a_page(vandals: tuple[Project, Run]) -> None:
    project, run = vandals
    assert "\x1b[31m" not in run.output
    assert "\x1b[2J" not in run.output
    for page in (project.path / "reports").glob("**/*.md"):
        assert "<script" not in page.read_text()
    assert "Traceback" not in run.output and '.smk", line' not in run.output


def test_nothing_is_written_outside_the_projects_own_folders(vandals: tuple[Project, Run]) -> None:
    names = {path.name for path in vandals[0].path.iterdir()}
    assert names <= {"config", "golden", "prof", "reports", ".snakemake"}
