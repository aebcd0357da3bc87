"""Each fault of the stand-in shows in the real torch_npu as it does on an Ascend machine."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from .captures import GOLDEN, HERE, NOISE, PER_STEP, STEPS, Capture, analyse, take
from .stand_in import Ascend

NO_TABLE = ("msprof_fails", "msprof_silent", "msprof_killed", "csv_empty", "csv_header_only", "db_only")
WITH_TABLE = ("msprof_slow=1.5", "drop_rows=-7:", "no_flow=0:2", "no_flow=:")
CALM = ("calm 1", "calm 2")


@pytest.fixture(scope="module")
def collected(ascend: Ascend, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return take(ascend, tmp_path_factory.mktemp("collected"), "--collect-only")


def copy_of(collected: Capture, name: str) -> Capture:
    return Capture(shutil.copytree(collected.folder, collected.folder.parent / f"{name}_ascend_pt"), collected.log)


@pytest.fixture(scope="module")
def analysed(ascend: Ascend, collected: Capture) -> dict[str, Capture]:
    """One copy of the same capture per fault, analysed under that fault."""
    copies = {fault: copy_of(collected, str(n)) for n, fault in enumerate((*NO_TABLE, *WITH_TABLE, *CALM))}
    jobs = [(c.folder, {"STAND_IN_FAULT": "" if fault in CALM else fault}) for fault, c in copies.items()]
    analyse(ascend, jobs)
    return copies


@pytest.mark.parametrize("fault", NO_TABLE)
def test_no_kernel_details_though_the_analysis_says_it_is_done(analysed: dict[str, Capture], fault: str) -> None:
    assert not analysed[fault].path("kernel_details.csv").exists()
    assert analysed[fault].path("analyse.done").exists()


def test_no_msprof_on_the_path(ascend: Ascend, collected: Capture) -> None:
    copy = copy_of(collected, "no_msprof")
    text = json.dumps([(str(copy.folder), {})])
    run = ascend.python(HERE / "offline_analysis.py", text, msprof=False)
    assert run.returncode == 0
    assert "'msprof' command not found" in run.stdout
    assert not copy.path("kernel_details.csv").exists()
    analyse(ascend, [(copy.folder, {})])  # a second try, with msprof, repairs it
    assert len(copy.table("kernel_details.csv")) == STEPS * PER_STEP


@pytest.mark.parametrize("fault", [*CALM, "msprof_slow=1.5"])
def test_msprof_outlives_the_first_look_at_its_files(analysed: dict[str, Capture], fault: str) -> None:
    rows = analysed[fault].table("kernel_details.csv")
    assert [row["Type"] for row in rows] == (NOISE + GOLDEN) * STEPS


def test_dropped_rows_still_count_in_op_statistic(analysed: dict[str, Capture]) -> None:
    rows = analysed["drop_rows=-7:"].table("kernel_details.csv")
    assert Counter(row["Step Id"] for row in rows) == {"1": PER_STEP, "2": PER_STEP}
    counts = {row["OP Type"]: int(row["Count"]) for row in analysed["drop_rows=-7:"].table("op_statistic.csv")}
    assert counts == {op_type: STEPS * count for op_type, count in Counter(NOISE + GOLDEN).items()}


def test_kernels_without_a_flow_at_the_head_of_a_step_have_no_step_id(analysed: dict[str, Capture]) -> None:
    steps = [row["Step Id"] for row in analysed["no_flow=0:2"].table("kernel_details.csv")]
    assert steps[:3] == ["", "", "1"]
    assert "" not in steps[2:]


def test_without_any_flow_there_is_no_step_id_column(analysed: dict[str, Capture]) -> None:
    rows = analysed["no_flow=:"].table("kernel_details.csv")
    assert len(rows) == STEPS * PER_STEP
    assert "Step Id" not in rows[0]


ADD = "x = torch.ones(8, 8, device='npu:0'); y = (x @ x).softmax(-1); torch.npu.synchronize()"
ADD_AGAIN = """
x = torch.ones(8, 8, device='npu:0')
try:
    x.softmax(-1) + 1; torch.npu.synchronize()
except RuntimeError:
    x.relu(); torch.npu.synchronize(); raise KeyError('told once')
"""
COLLECT = (
    "from torch_npu.profiler import profile, tensorboard_trace_handler\n"
    "with profile(on_trace_ready=tensorboard_trace_handler({folder!r}, analyse_flag=False)):\n"
    "    torch.ones(8, device='npu:0')"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("capture_fails")


@pytest.fixture(scope="module")
def trials(ascend: Ascend, folder: Path) -> dict[str, str]:
    """How each trial ended, by the fault that it was made under."""
    wanted = {name: ({"STAND_IN_FAULT": name}, ADD) for name in ("none", "device_busy", "out_of_memory")}
    wanted |= {name: ({"STAND_IN_FAULT": name}, ADD) for name in ("launch_fails", "launch_fails=SoftmaxV2")}
    wanted |= {name: ({"STAND_IN_FAULT": name}, ADD) for name in ("launch_fails=Sort", "launch_crashes=MatMul")}
    wanted["no device"] = ({"STAND_IN_DEVICES": "0"}, ADD)
    wanted["no device, profiled"] = ({"STAND_IN_DEVICES": "0"}, "import torch_npu; torch_npu.profiler.profile()")
    wanted["wrong device"] = ({}, "torch.npu.set_device(1)")
    wanted["capture_fails"] = ({"STAND_IN_FAULT": "capture_fails"}, COLLECT.format(folder=str(folder)))
    wanted["told once"] = ({"STAND_IN_FAULT": "launch_fails=SoftmaxV2", "STAND_IN_LOG": str(folder / "log")}, ADD_AGAIN)
    run = ascend.python(HERE / "fault_trials.py", json.dumps(wanted))
    assert run.returncode == 0, run.stderr
    return dict(line.split(": ", 1) for line in run.stdout.splitlines() if line.split(": ")[0] in wanted)


@pytest.mark.parametrize(
    ("trial", "end"),
    [
        ("none", "ok"),
        ("no device", "RuntimeError"),
        ("no device, profiled", "RuntimeError"),
        ("wrong device", "RuntimeError"),
        ("device_busy", "RuntimeError"),
        ("out_of_memory", "OutOfMemoryError"),
        ("launch_fails", "RuntimeError"),
        ("launch_fails=SoftmaxV2", "RuntimeError"),
        ("launch_fails=Sort", "ok"),
        ("launch_crashes=MatMul", f"signal {signal.SIGABRT.value}"),
    ],
)
def test_device_faults_reach_python(trials: dict[str, str], trial: str, end: str) -> None:
    assert trials[trial].startswith(end)


def test_a_capture_that_cannot_start_raises_nothing_and_collects_nothing(trials: dict[str, str], folder: Path) -> None:
    assert trials["capture_fails"] == "ok"
    (written,) = folder.glob("*_ascend_pt")
    assert not list(written.glob("PROF_*"))


def test_a_failed_launch_is_told_once_and_later_ones_vanish(trials: dict[str, str], folder: Path) -> None:
    assert trials["told once"].startswith("KeyError")
    assert "Relu" not in {launch.op_type for launch in Ascend.launch_log(folder / "log")}


def test_synchronising_can_hang(ascend: Ascend) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        ascend.python("-c", f"import torch; {ADD}", faults="sync_hangs", timeout_s=8)
