"""What fails is diagnosed: its own status, its own exit code, no report, and the others go on."""

from __future__ import annotations

import csv
import errno
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import failures, workers, workflow_steps
from scripts.status import Status
from scripts.workers import Workers
from scripts.workflow_errors import ConfigurationError, StepFailed
from tests.test_workers import PLANNED
from tests.workflow.conftest import Project, Run

X = "inputs: {x: {shape: [8, 16], dtype: float32}}"


def _operator(function: str, settings: str = "") -> str:
    return f"""
  {function}:
    golden: golden/broken_golden.py
    function: {function}
    mode: A
    {settings}
    cases: {{case: {{{X}}}}}"""


# golden → (status, exit code, words of the diagnosis)
BROKEN = {
    "index_golden": (Status.GOLDEN_FAILED, 2, ("IndexError", "index", "randint")),
    "shape_golden": (Status.GOLDEN_FAILED, 2, ("RuntimeError", "shapes", "_make_inputs")),
    "dtype_golden": (Status.GOLDEN_FAILED, 2, ("RuntimeError", "dtype")),
    "precondition_golden": (Status.GOLDEN_FAILED, 2, ("ValueError", "x must have 7777 rows", "check")),
    "other_golden": (Status.GOLDEN_FAILED, 2, ("KeyError", "no such entry")),
    "text_golden": (Status.GOLDEN_FAILED, 2, ("returned str", "tensor")),
    "hang_golden": (Status.TIMEOUT, 3, ("timeout_s = 3 s", "running")),
    "segfault_golden": (Status.GOLDEN_FAILED, 2, ("SIGSEGV",)),
    "exit_golden": (Status.GOLDEN_FAILED, 2, ("exit code 0", "before it gave a result")),
    "system_exit_golden": (Status.GOLDEN_FAILED, 2, ("SystemExit",)),
    "view_golden": (Status.NO_KERNELS, 3, ("view",)),
    "missing_argument_golden": (Status.GOLDEN_FAILED, 2, ("scale_of_it",)),
}
FACTORY = {
    "factory_golden/twice": "makes it 2 times",
    "factory_golden/absent": "makes no such case; its cases: ",
    "rubbish_golden/raises": "no inputs today",
    "rubbish_golden/number": "a int",
    "rubbish_golden/object": "builtins.object",
}


@pytest.fixture(scope="module")
def broken(shared_project: Callable[[str], Project]) -> tuple[Project, Run]:
    project = shared_project("broken")
    text = "defaults: {warmup: 1, iterations: 2, noise_mib: 1, timeout_s: 60}\noperators:"
    for function in BROKEN:
        text += _operator(function, "timeout_s: 3" if function == "hang_golden" else "")
    text += f"""
  small_golden:
    golden: golden/small_golden.py
    mode: A
    cases: {{case: {{{X}}}}}
  factory_golden: {{golden: golden/factory_golden.py, mode: B, cases: {{good: {{}}, twice: {{}}, absent: {{}}}}}}
  rubbish_golden: {{golden: golden/rubbish_golden.py, mode: B, cases: {{raises: {{}}, number: {{}}, object: {{}}}}}}
"""
    project.cases(text)
    return project, project.run("-j1")


@pytest.mark.parametrize("golden", BROKEN)
def test_a_broken_golden_ends_in_its_own_status(broken: tuple[Project, Run], golden: str) -> None:
    project, _ = broken
    status, exit_code, words = BROKEN[golden]
    failure = project.failure(f"{golden}/case")
    assert failure.status is status
    assert failure.status.exit_code == exit_code
    for word in words:
        assert word in failure.message + failure.advice
    assert not (project.path / f"reports/{golden}/case.md").exists()
    log = (project.path / failure.log).read_text()
    assert failure.message.split("\n")[0][:60] in log.replace("\n" + " " * 17, " ")


@pytest.mark.parametrize("case", FACTORY)
def test_a_factory_that_makes_no_such_case_is_refused(broken: tuple[Project, Run], case: str) -> None:
    failure = broken[0].failure(case)
    assert failure.status is Status.GOLDEN_FAILED
    assert failure.step == "make_inputs"
    assert FACTORY[case] in failure.message


@pytest.mark.parametrize(("golden", "line"), [("index_golden", "x.shape[0] + 5"), ("shape_golden", "x.shape[-1] + 1")])
def test_a_golden_that_raises_is_named_with_its_line_and_its_log_ends_there(
    broken: tuple[Project, Run], golden: str, line: str
) -> None:
    project, _ = broken
    number = (project.path / "golden/broken_golden.py").read_text().partition(line)[0].count("\n") + 1
    failure = project.failure(f"{golden}/case")
    assert f"in the first call (golden/broken_golden.py:{number}): " in failure.message
    log = (project.path / failure.log).read_text()
    assert log.count("Traceback (most recent call last)") == 1
    *_, last = re.findall(r'File "(.*)", line (\d+)', log)
    assert last == (str(project.path / "golden/broken_golden.py"), str(number))


def test_the_good_ones_go_on_and_the_summary_lists_all(broken: tuple[Project, Run]) -> None:
    project, run = broken
    assert run.code != 0
    with (project.path / "reports/summary.csv").open() as file:
        rows = {f"{row['operator']}/{row['case']}": row["status"] for row in csv.DictReader(file)}
    expected = {f"{golden}/case": status.value for golden, (status, _, _) in BROKEN.items()}
    expected |= dict.fromkeys(FACTORY, "golden_failed")
    assert rows == {**expected, "small_golden/case": "ok", "factory_golden/good": "ok"}
    assert project.report("small_golden/case")


def test_the_diagnosis_names_the_exit_code_that_the_status_has(broken: tuple[Project, Run]) -> None:
    _, run = broken
    for golden, (status, exit_code, _) in BROKEN.items():
        assert f"{golden}/case: {status} (exit code {exit_code})" in run.output


def test_the_terminal_shows_sentences_and_no_traceback(broken: tuple[Project, Run]) -> None:
    _, run = broken
    assert "Traceback" not in run.output and '.smk", line' not in run.output
    assert "view_golden/case: no_kernels" in run.output
    assert "What to do" in run.output or "Fix" in run.output


def test_nothing_is_left_running_after_the_failures(broken: tuple[Project, Run]) -> None:
    assert broken[0].processes_after_a_moment() == []


def test_a_mended_golden_is_measured_and_its_failure_forgotten(project: Project) -> None:
    project.cases(f"""
        defaults: {{warmup: 1, iterations: 2, noise_mib: 1}}
        operators:
          frail_golden:
            golden: golden/frail_golden.py
            mode: A
            cases: {{case: {{{X}}}}}
    """)
    project.golden("frail_golden", "def frail_golden(x):\n    raise ValueError('broken')\n")
    assert project.run("-j1").code == 1
    project.golden("frail_golden", "def frail_golden(x):\n    return x + 1\n")
    run = project.run("-j1")
    assert run.code == 0, run.output
    assert (project.path / "reports/frail_golden/case.md").exists()
    assert "1 ok" in (project.path / "reports/summary.md").read_text()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("reports/small_golden/cse.md", "small_golden/case"),
        ("reports/smal_golden.md", "small_golden"),
    ],
)
def test_an_unknown_target_names_the_nearest(broken: tuple[Project, Run], target: str, words: str) -> None:
    run = broken[0].run("-n", target)
    assert run.code == 1
    assert "There is no" in run.output
    assert words in run.output


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ("operators: {a_golden: {golden: golden/absent.py, mode: B, cases: {c: {}}}}", "golden/absent.py"),
        ("operators: {a_golden: {golden: golden/small_golden.py, mode: B, cases: {'../c': {}}}}", "../c"),
        ("defaults: {iterations: -1}\noperators: {}", "iterations"),
        ("", "cases.yaml"),
        ("operators: [", "cases.yaml:2:1: not YAML"),
    ],
)
def test_a_bad_cases_file_is_refused_before_anything_is_written(project: Project, cases: str, words: str) -> None:
    project.cases(cases)
    run = project.run("-j1")
    assert run.code == 1
    assert words in run.output
    assert "Traceback" not in run.output and '.smk", line' not in run.output
    assert 'File "' not in run.output
    assert not (project.path / "prof").exists()
    assert not (project.path / "reports").exists()


def test_inputs_larger_than_memory_are_skipped_before_they_are_allocated(project: Project) -> None:
    project.cases("""
        defaults: {warmup: 1, iterations: 2, noise_mib: 1}
        operators:
          small_golden:
            golden: golden/small_golden.py
            mode: A
            cases: {huge: {inputs: {x: {shape: [1000000, 1000000], dtype: float32}}}}
    """)
    assert project.run("-j1").code == 1
    failure = project.failure("small_golden/huge")
    assert failure.status is Status.SKIPPED
    assert "3725.29 GiB" in failure.message


def test_an_explicit_device_that_is_not_there_is_an_error_that_says_what_was_found(project: Project) -> None:
    project.cases(f"""
        defaults: {{warmup: 1, iterations: 2, noise_mib: 1, device: 'npu:3'}}
        operators:
          small_golden: {{golden: golden/small_golden.py, mode: A, cases: {{case: {{{X}}}}}}}
    """)
    run = project.run("-j1")
    assert run.code == 1
    failure = project.failure("small_golden/case")
    assert failure.status is Status.DEVICE_UNAVAILABLE
    assert "cpu" in failure.message


@pytest.mark.parametrize("options", [(), ("--no-hooks",)], ids=["", "as in a job of a cluster"])
def test_sigterm_ends_the_case_that_is_measured(project: Project, options: tuple[str, ...]) -> None:
    project.golden(
        "asleep_golden", "import time\n\n\ndef asleep_golden(x):\n    print('asleep', flush=True)\n    time.sleep(60)\n"
    )
    project.cases(f"operators: {{asleep_golden: {{golden: golden/asleep_golden.py, mode: A, cases: {{c: {{{X}}}}}}}}}")
    command = project.command("-j1", *options, "--", "reports/asleep_golden/c.md")
    with subprocess.Popen(command, cwd=project.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + 60
        while not any("asleep" in log.read_text() for log in project.path.glob("prof/**/profile.log")):
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        try:
            run.wait(20)
        finally:
            run.kill()
    assert project.processes_after_a_moment() == []


def test_a_cheap_step_that_fails_leaves_its_status_and_a_sentence(broken: tuple[Project, Run], tmp_path: Path) -> None:
    project, _ = broken
    case = "small_golden/case"
    (tmp_path / "file").write_text("")
    again = ("-j1", "--forcerun", "parse_csv", "--", f"reports/{case}.md")
    run = project.run(*again, GOLDENPROF_LOCK_DIR=str(tmp_path / "file"))
    assert run.code == 1 and "Traceback" not in run.output, run.output
    assert (project.failure(case).step, project.failure(case).status) == ("parse_csv", Status.INCOMPLETE)
    assert "NotADirectoryError" in project.failure(case).message
    assert f"{case}: incomplete" in run.output
    assert project.run(*again).code == 0
    assert not (project.folder(case) / "failure.json").exists()
    (project.folder(case) / "profile.json").write_text("{")
    run = project.run("-j1", "--", f"reports/{case}.md")
    assert run.code == 1 and "Traceback" not in run.output, run.output
    assert (project.failure(case).step, project.failure(case).status) == ("locate_output", Status.INCOMPLETE)
    assert "it is now profile.json.damaged" in project.failure(case).message
    assert project.run("-j1", "--", f"reports/{case}.md").code == 0


def test_a_step_that_is_interrupted_while_it_waits_is_no_failure_of_its_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stopped = Workers(1)
    stopped.hang_up()
    monkeypatch.setattr(workers, "ours", stopped)
    plan = SimpleNamespace(rooted=lambda root: SimpleNamespace(case=lambda *names: PLANNED))
    wildcards = SimpleNamespace(operator="some_golden", case="case")
    with pytest.raises(StepFailed, match="The run was interrupted"):
        workflow_steps.parse_csv(SimpleNamespace(plan=plan), wildcards, "x.log")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", ["summary", "page"])
def test_a_page_that_cannot_be_written_is_a_sentence(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "ours", Workers(1))
    Path("reports").touch()
    stale = SimpleNamespace(plan=SimpleNamespace(sweep=lambda: [PLANNED]))
    with pytest.raises(ConfigurationError, match=f"^{page} ended with .*reports.* Put right what it names"):
        getattr(workflow_steps, page)(stale)


def test_what_the_terminal_no_longer_reads_fails_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*texts: str, **options: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", closed)
    workflow_steps._make("page", [PLANNED], "x.log", lambda *work: "a table")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "Make room"),
        (MemoryError(), "Make room"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "reports"), "Put right what it names"),
        (PermissionError(errno.EACCES, "Permission denied", "reports"), "Put right what it names"),
        (KeyError("x"), "the log has the whole traceback"),
    ],
)
def test_the_advice_fits_the_error(error: Exception, advice: str, tmp_path: Path) -> None:
    assert advice in failures.of_error("summary", error, tmp_path / "x.log").advice


def test_a_second_interrupt_ends_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(page: str, plan: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workflow_steps, "_make_at_the_end", interrupted)
    plan = SimpleNamespace(summary_wanted=True, page_wanted=True, night=None)
    workflow = SimpleNamespace(non_local_exec=False)
    workflow_steps.finish(SimpleNamespace(plan=plan, workflow=workflow), failed=True)
    assert capsys.readouterr().err == "Interrupted again: the summary is not written.\n"


@pytest.mark.parametrize("folder", ["prof", "reports"])
def test_a_file_in_place_of_a_folder_is_a_sentence(project: Project, folder: str) -> None:
    project.cases(f"operators:{_operator('right_golden')}")
    (project.path / "golden").mkdir(exist_ok=True)
    (project.path / "golden/broken_golden.py").write_text("def right_golden(x):\n    return x + 1\n")
    (project.path / folder).touch()
    run = project.run("-n")
    assert run.code == 1 and "Traceback" not in run.output
    assert f"{folder} is no folder, but the workflow writes into one of that name. Move it away." in run.output
