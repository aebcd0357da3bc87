"""Whatever can go wrong between a golden and its table ends in a status of its own, with advice, and never in a number.

Each trial takes a case through the workflow's own steps over the stand-in, with one thing wrong. docs/ascend_checks.md
lists them all.
"""

from __future__ import annotations

import json
import os
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import artifacts, locate_output, profile
from scripts.artifacts import ProfileRecord
from scripts.devices import npu
from scripts.errors import CaseFailure
from scripts.status import Status
from tests.workflow.conftest import ROOT, new_project

from .captures import HERE
from .case_trials import ITERATIONS
from .stand_in import Ascend

GOLDEN = """
    import torch

    calls = 0

    def plain_golden(x):
        return torch.softmax(x @ x.T, dim=-1).float() + 1

    def frail_golden(x):
        global calls
        calls += 1
        if calls == 9:  # check, FLOPs, a warm-up, 3 without the profiler, its warm-up step, and the second iteration
            raise ValueError("tired")
        return plain_golden(x)
"""
PER_CALL = {"MatMul": 1, "SoftmaxV2": 1, "Cast": 1, "Add": 1, "Transpose": 0}
ALL = ["make", "collect", "analyse", "locate", "parse"]
Answers = dict[str, dict[str, Any]]

# What goes wrong in the analysis of a good capture: name → (variables, changes, (status, words of message and advice))
IN_THE_ANALYSIS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "nothing": ("", "ok", ()),
    "msprof fails": ("msprof_fails", "missing_output", ("kernel_details.csv does not exist", "msprof is on PATH")),
    "msprof is silent": ("msprof_silent", "missing_output", ("kernel_details.csv does not exist", "msprof is on PATH")),
    "msprof is killed": ("msprof_killed", "missing_output", ("kernel_details.csv does not exist",)),
    "msprof is slow": ("msprof_slow=1.5", "ok", ()),
    "table is empty": ("csv_empty", "missing_output", ("kernel_details.csv does not exist",)),
    "table is a header": ("csv_header_only", "missing_output", ("kernel_details.csv does not exist",)),
    "only a database of msprof": ("db_only", "missing_output", ("kernel_details.csv does not exist",)),
    "a step short": ("drop_rows=-6:", "incomplete", ("1, 2, 3 are expected", "Profile the case again")),
    "tail of a step lost": ("drop_rows=-1:", "incomplete", ("do not show the same kernels", "lacks 1 x Add")),
    "head of the window lost": ("drop_rows=0:3", "incomplete", ("noise kernel", "head of the window was lost")),
    "no Step Id column": ("no_flow=:", "ok", ()),
    "Step Id blank at the head": ("no_flow=0:2", "incomplete", ("noise kernel",)),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trials")


@pytest.fixture(scope="module")
def trials(ascend: Ascend, place: Path) -> Callable[[list[dict[str, Any]]], Answers]:
    """Runs case_trials.py on a list of trials; their answers by name."""

    def run(wanted: list[dict[str, Any]]) -> Answers:
        file = place / f"{wanted[0]['name'].replace(' ', '_')}.json"
        file.write_text(json.dumps(wanted))
        file.with_suffix(".golden.py").write_text(textwrap.dedent(GOLDEN))
        done = ascend.python(
            HERE / "case_trials.py",
            file,
            timeout_s=300,
            extra={"PYTHONPATH": f"{ROOT}:{ascend.wheel}", "GOLDENPROF_LOCK_DIR": str(place / "locks")},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        answers = {answer.pop("name"): answer for answer in map(json.loads, done.stdout.splitlines())}
        assert answers.keys() == {trial["name"] for trial in wanted}, file.with_suffix(".log").read_text()
        return answers

    return run


def trial(name: str, folder: Path, *steps: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "folder": str(folder), "steps": list(steps), **options}


@pytest.fixture(scope="module")
def collected(trials: Callable[[list[dict[str, Any]]], Answers], place: Path) -> Path:
    """A case whose good capture is not analysed yet."""
    folder = place / "collected"
    assert trials([trial("collected", folder, "make", "collect")])["collected"]["status"] == "ok"
    return folder


@pytest.fixture(scope="module")
def analysed(trials: Callable[[list[dict[str, Any]]], Answers], collected: Path, place: Path) -> Answers:
    """The same capture, analysed once under each of IN_THE_ANALYSIS."""
    wanted = []
    for number, (name, (fault, _, _)) in enumerate(IN_THE_ANALYSIS.items()):
        folder = shutil.copytree(collected, place / f"analysed-{number}")
        wanted.append(trial(name, folder, *ALL[2:], variables={"STAND_IN_FAULT": fault}))
    for change in ("one_core", "first_analysis_fails"):
        wanted.append(trial(change, shutil.copytree(collected, place / change), change, *ALL[2:]))
    return trials(wanted)


def check(answer: dict[str, Any], status: str, words: tuple[str, ...]) -> None:
    assert answer["status"] == status, answer
    if status == "ok":
        assert answer["ops"] == {op: count for op, count in PER_CALL.items() if count}
        assert answer["kernels"] == [sum(PER_CALL.values())] * ITERATIONS
    else:
        assert answer["advice"]
    for word in words:
        assert word in answer["message"] + answer["advice"]


@pytest.mark.parametrize("name", IN_THE_ANALYSIS)
def test_what_goes_wrong_in_the_analysis(analysed: Answers, name: str) -> None:
    _, status, words = IN_THE_ANALYSIS[name]
    check(analysed[name], status, words)


def test_one_core_is_enough(analysed: Answers) -> None:
    check(analysed["one_core"], "ok", ())
    assert analysed["one_core"]["e2e_us"] == analysed["nothing"]["e2e_us"]


def test_an_analysis_that_gave_nothing_is_tried_once_more(analysed: Answers) -> None:
    check(analysed["first_analysis_fails"], "ok", ())
    assert analysed["first_analysis_fails"]["e2e_us"] == analysed["nothing"]["e2e_us"]


def test_without_step_ids_the_report_says_how_rows_were_assigned(analysed: Answers) -> None:
    answer = analysed["no Step Id column"]
    assert "no Step Ids" in answer["attribution"]
    assert any("no Step Ids" in warning for warning in answer["warnings"])
    assert answer["e2e_us"] == analysed["nothing"]["e2e_us"]


# What goes wrong before or while the device is used: name → (trial's options, (status, words of message and advice)).
ON_THE_DEVICE: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "no msprof": (
        {"variables": {"PATH": os.environ["PATH"]}},
        "profiler_failed",
        ("msprof: not on PATH", "set_env.sh"),
    ),
    "no device": (
        {"variables": {"STAND_IN_DEVICES": "0"}},
        "device_unavailable",
        ("no device is visible", "Found instead: cpu", "goldenprof doctor"),
    ),
    "device out of range": (
        {"device": "npu:5"},
        "device_unavailable",
        ("Device npu:5 is not there: this machine has npu:0",),
    ),
    "device busy": (
        {"variables": {"STAND_IN_FAULT": "device_busy"}},
        "device_unavailable",
        ("npu:0 cannot be used", "another process holds it"),
    ),
    "capture does not start": (
        {"variables": {"STAND_IN_FAULT": "capture_fails"}},
        "profiler_failed",
        ("collected nothing from the device", "versions of torch_npu, CANN and the driver"),
    ),
    "exception in the region": (
        {"golden": "frail_golden"},
        "golden_failed",
        ("raised ValueError in iteration 1 (", "): tired", "the case's inputs do not satisfy the check"),
    ),
    "operator cannot be launched": (
        {"variables": {"STAND_IN_FAULT": "launch_fails=SoftmaxV2"}},
        "golden_failed",
        ("plain_golden raised RuntimeError in the first call",),
    ),
    "PROFILING_MODE": ({"variables": {"PROFILING_MODE": "dynamic", "PROFILER_SAMPLECONFIG": "{}"}}, "ok", ()),
}


@pytest.fixture(scope="module")
def fresh(trials: Callable[[list[dict[str, Any]]], Answers], place: Path) -> Answers:
    """A case measured anew under each of ON_THE_DEVICE, and some more."""
    wanted = [
        trial(name, place / f"fresh-{number}", *ALL, **options)
        for number, (name, (options, _, _)) in enumerate(ON_THE_DEVICE.items())
    ]
    other = place / "other-version"
    (other / "torch_npu-2.9.0.dist-info").mkdir(parents=True)
    (other / "torch_npu-2.9.0.dist-info/METADATA").write_text("Name: torch_npu\nVersion: 2.9.0\n")
    wanted.append(trial("mismatch", place / "mismatch", *ALL, more_path=str(other)))
    visible = {"STAND_IN_DEVICES": "3", "ASCEND_RT_VISIBLE_DEVICES": "2"}
    wanted.append(trial("visible", place / "visible", *ALL, variables=visible))
    changes = {"noise_mib": 16384.0}  # long enough for the host to be ahead of the device by several steps
    wanted.append(trial("leak", place / "leak", "never_synchronise", *ALL, **changes))
    return trials(wanted)


@pytest.mark.parametrize("name", ON_THE_DEVICE)
def test_what_goes_wrong_on_the_device(fresh: Answers, name: str) -> None:
    _, status, words = ON_THE_DEVICE[name]
    check(fresh[name], status, words)


def test_a_renumbered_device_is_told_by_its_number_on_the_machine(fresh: Answers) -> None:
    check(fresh["visible"], "ok", ())
    assert fresh["visible"]["physical_id"] == "2"


def test_variables_that_silence_the_profiler_are_removed_and_named(fresh: Answers) -> None:
    warnings = " ".join(fresh["PROFILING_MODE"]["warnings"])
    assert "PROFILING_MODE was set" in warnings
    assert "PROFILER_SAMPLECONFIG was set" in warnings


def test_a_capture_that_an_exception_cut_short_is_thrown_away(fresh: Answers, place: Path) -> None:
    assert fresh["exception in the region"]["status"] == "golden_failed"
    folder = place / f"fresh-{list(ON_THE_DEVICE).index('exception in the region')}"
    assert {path.name for path in folder.iterdir()} == {"inputs.json", "inputs.pt"}


def test_torch_and_torch_npu_that_do_not_match_are_told_before_one_is_loaded(fresh: Answers) -> None:
    check(fresh["mismatch"], "device_unavailable", ("2.9.0 is not built for torch 2.13.0", "nstall torch==2.9.0"))


def test_warm_up_rows_that_leaked_in_are_dropped_and_listed(fresh: Answers, analysed: Answers) -> None:
    answer = fresh["leak"]
    check(answer, "ok", ())
    assert answer["dropped"].count("outside_steps") >= sum(PER_CALL.values())
    assert answer["dropped"].count("noise") == ITERATIONS
    assert answer["e2e_us"] == analysed["nothing"]["e2e_us"]


def test_a_capture_of_another_schedule_is_incomplete(collected: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(collected, tmp_path / "case")
    (info,) = folder.glob("*_ascend_pt/profiler_info.json")
    info.write_text(info.read_text().replace(f'"active": {ITERATIONS}', '"active": 7'))
    record = artifacts.read(folder / profile.COLLECTED, ProfileRecord)
    with pytest.raises(CaseFailure, match="was to record 7 steps") as failure:
        locate_output.find(folder, record)
    assert failure.value.status is Status.INCOMPLETE


def test_a_profiler_folder_becomes_the_users_alone_whatever_it_was(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o777)
    (tmp_path / "real").chmod(0o777)
    (tmp_path / "link").symlink_to("real")
    folder = npu.own_folder(tmp_path / "link")
    assert folder == tmp_path / "real"
    assert folder.stat().st_mode & 0o777 == 0o750


def test_a_profiler_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    with pytest.raises(CaseFailure, match=f"belongs to user {owner}") as failure:
        npu.own_folder(tmp_path)
    assert failure.value.status is Status.PROFILER_FAILED
    assert "chown" in failure.value.advice


@pytest.mark.parametrize("captures", [0, 2])
def test_a_run_that_left_no_capture_or_two_is_a_failure_of_the_profiler(tmp_path: Path, captures: int) -> None:
    for number in range(captures):
        (tmp_path / f"host_{number}_20260101000000000_ascend_pt").mkdir()
    with pytest.raises(CaseFailure, match=f"there are {captures}") as failure:
        npu.only_capture(tmp_path)
    assert failure.value.status is Status.PROFILER_FAILED


CASES = """
    defaults: {warmup: 1, iterations: 2, noise_mib: 1, timeout_s: %d}
    operators:
      small_golden:
        golden: golden/small_golden.py
        mode: A
        cases:
          on_npu: {device: 'npu:0', inputs: {x: {shape: [8, 16], dtype: float32}}}
          on_cpu: {device: cpu, inputs: {x: {shape: [8, 16], dtype: float32}}}
"""


def test_torch_npu_without_cann_stops_npu_cases_with_a_sentence_and_no_others(ascend: Ascend, tmp_path: Path) -> None:
    """`import torch` itself fails there when torch loads its backends."""
    bare = ascend.environment(msprof=False, extra={"LD_LIBRARY_PATH": "", "GOLDENPROF_LOCK_DIR": str(tmp_path / "l")})
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH"):
        del bare[name]
    project = new_project(tmp_path / "project")
    project.cases(CASES % 60)
    run = project.run("-j1", **bare)
    assert run.code == 1
    assert "Device**: cpu" in project.report("small_golden/on_cpu")
    failure = project.failure("small_golden/on_npu")
    assert failure.status is Status.DEVICE_UNAVAILABLE
    assert "torch_npu is installed, but the Ascend runtime does not answer: libascendcl.so" in failure.message
    assert "Traceback" not in run.output


@pytest.mark.parametrize(
    ("fault", "phase", "cause"),
    [
        pytest.param("msprof_slow=300", "analysing", "msprof hangs", id="analysis"),
        pytest.param("sync_hangs", "running", "it hangs", id="device"),
    ],
)
def test_what_does_not_end_is_stopped_with_all_that_it_started(
    ascend: Ascend, tmp_path: Path, fault: str, phase: str, cause: str
) -> None:
    project = new_project(tmp_path / "project")
    project.cases(CASES % 6)
    environment = ascend.environment(faults=fault) | {"GOLDENPROF_LOCK_DIR": str(tmp_path / "locks")}
    run = project.run("-j1", "reports/small_golden/on_npu.md", **environment)
    assert run.code == 1
    failure = project.failure("small_golden/on_npu")
    assert failure.status is Status.TIMEOUT
    assert f"timeout_s = 6 s (phase: {phase})" in failure.message
    assert cause in failure.advice
    assert project.processes_after_a_moment(20) == []
