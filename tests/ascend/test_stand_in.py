"""The real torch_npu, on the stand-in runtime, writes what it writes on an NPU."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import pytest

from .captures import GOLDEN, HERE, NOISE, PER_STEP, STEPS, Capture, analyse, take
from .stand_in import Ascend

METRICS_PIPE_UTILIZATION, NO_METRICS = 1, 255
DATA_OF_LEVEL1, DATA_OF_LEVEL0 = 0x27, 0x801


@pytest.fixture(scope="module")
def analysed(ascend: Ascend, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return take(ascend, tmp_path_factory.mktemp("analysed"))


@pytest.fixture(scope="module")
def collected(ascend: Ascend, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return take(ascend, tmp_path_factory.mktemp("collected"), "--collect-only")


def test_every_kernel_of_every_step_has_a_row(analysed: Capture) -> None:
    rows = analysed.table("kernel_details.csv")
    assert [row["Step Id"] for row in rows] == [str(step) for step in (1, 2, 3) for _ in range(PER_STEP)]
    assert [row["Type"] for row in rows] == (NOISE + GOLDEN) * STEPS
    assert len(rows[0]) == 47


def test_rows_say_what_was_launched(analysed: Capture) -> None:
    rows = analysed.table("kernel_details.csv")
    launches = Ascend.launch_log(analysed.log)[-len(rows) :]
    for row, launch in zip(rows, launches, strict=True):
        assert row["Type"] == launch.op_type
        assert row["Accelerator Core"] == launch.core
        assert row["Input Shapes"] == '"' + ";".join(",".join(map(str, t.shape)) for t in launch.inputs) + '"'
        assert row["Output Data Types"] == ";".join(tensor.dtype for tensor in launch.outputs)
        assert float(row["Duration(us)"]) == launch.duration_us
        assert row["Start Time(us)"] == f"{launch.start_ns // 1000}.{launch.start_ns % 1000:03d}\t"
    assert rows[1]["Input Shapes"] == '"64,96;96,128"'
    assert rows[1]["Input Data Types"] == "FLOAT16;FLOAT16"


def test_kernels_follow_one_another_within_their_step(analysed: Capture) -> None:
    for before, after in itertools.pairwise(Ascend.launch_log(analysed.log)):
        assert before.end_ns < after.start_ns
        assert after.host_start_ns < after.start_ns


def test_op_statistic_sums_equal_kernel_details(analysed: Capture) -> None:
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in analysed.table("kernel_details.csv"):
        sums[row["Type"], row["Accelerator Core"]] += float(row["Duration(us)"])
    statistic = {
        (row["OP Type"], row["Core Type"]): float(row["Total Time(us)"]) for row in analysed.table("op_statistic.csv")
    }
    assert statistic == pytest.approx(dict(sums), abs=1e-3)


def test_step_trace_time_holds_each_steps_computing_time(analysed: Capture) -> None:
    computing: dict[str, float] = defaultdict(float)
    for row in analysed.table("kernel_details.csv"):
        computing[row["Step Id"]] += float(row["Duration(us)"])
    traced = {row["Step"]: float(row["Computing"]) for row in analysed.table("step_trace_time.csv")}
    assert traced == pytest.approx(dict(computing), abs=1e-2)


def test_configuration_reaches_the_runtime(analysed: Capture) -> None:
    (config,) = Ascend.call_log(analysed.log, "aclprofCreateConfig")
    assert config.arguments == {"devices": [0], "metrics": METRICS_PIPE_UTILIZATION, "data_types": DATA_OF_LEVEL1}
    names = [call.name for call in Ascend.call_log(analysed.log)]
    assert [name for name in names if name in ("aclprofInit", "aclprofStart", "aclprofStop")] == [
        "aclprofInit",
        "aclprofStart",
        "aclprofStop",
    ]


def test_the_capture_says_that_a_stand_in_made_it(analysed: Capture) -> None:
    info = json.loads((analysed.folder / "profiler_info.json").read_text())
    assert "stand-in" in info["cann_version"]


def test_runtime_and_device_can_be_told_from_an_npu(ascend: Ascend) -> None:
    script = (
        "import ctypes, os, torch\n"
        "print(ctypes.c_int.in_dll(ctypes.CDLL('libascendcl.so'), 'goldenprof_stand_in').value)\n"
        "print(torch.npu.get_device_name(0), torch.npu.device_count(), os.environ['GOLDENPROF_STAND_IN'])\n"
    )
    run = ascend.python("-c", script, devices=3)
    assert run.stdout.split() == ["1", "Ascend910B3", "3", "1"], run.stderr


def test_capture_is_analysed_offline_in_another_process(ascend: Ascend, collected: Capture) -> None:
    assert not collected.path("kernel_details.csv").exists()
    copy = shutil.copytree(collected.folder, collected.folder.parent / "offline_ascend_pt")
    analyse(ascend, [(copy, {})])
    rows = Capture(copy, collected.log).table("kernel_details.csv")
    assert [row["Type"] for row in rows] == (NOISE + GOLDEN) * STEPS
    assert rows[-1]["Step Id"] == "3"


def test_level0_has_no_types(ascend: Ascend, tmp_path: Path) -> None:
    capture = take(ascend, tmp_path, "--level=Level0")
    (config,) = Ascend.call_log(capture.log, "aclprofCreateConfig")
    assert (config.arguments["metrics"], config.arguments["data_types"]) == (NO_METRICS, DATA_OF_LEVEL0)
    assert {row["Type"] for row in capture.table("kernel_details.csv")} == {"N/A"}


def test_second_device_is_captured_as_itself(ascend: Ascend, tmp_path: Path) -> None:
    capture = take(ascend, tmp_path, "--steps=1", "--device=npu:1", devices=2)
    (config,) = Ascend.call_log(capture.log, "aclprofCreateConfig")
    assert config.arguments["devices"] == [1]
    assert {row["Device_id"] for row in capture.table("kernel_details.csv")} == {"1"}


def test_only_visible_devices_are_seen_and_rows_name_the_physical_one(ascend: Ascend, tmp_path: Path) -> None:
    env = {"ASCEND_RT_VISIBLE_DEVICES": "2"}
    capture = take(ascend, tmp_path, "--steps=1", "--device=npu:0", devices=3, extra=env)
    assert {row["Device_id"] for row in capture.table("kernel_details.csv")} == {"2"}
    run = ascend.python("-c", "import torch; print(torch.npu.device_count())", devices=3, extra=env)
    assert run.stdout.split() == ["1"], run.stderr


def test_missing_synchronisation_lets_warm_up_kernels_leak_in(ascend: Ascend, tmp_path: Path) -> None:
    capture = take(ascend, tmp_path, "--never-synchronise", "--noise-mib=16384")
    rows = capture.table("kernel_details.csv")
    assert len(rows) > STEPS * PER_STEP
    assert rows[0]["Step Id"] == ""


def test_db_export_holds_the_same_kernels(ascend: Ascend, collected: Capture) -> None:
    copy = shutil.copytree(collected.folder, collected.folder.parent / "db_ascend_pt")
    run = ascend.python("-c", f"from torch_npu.profiler.profiler import analyse; analyse({str(copy)!r}, 1, 'db')")
    assert run.returncode == 0, run.stderr
    written = Capture(copy, collected.log)
    assert not written.path("kernel_details.csv").exists()
    query = (
        "SELECT type.value, endNs - startNs FROM COMPUTE_TASK_INFO JOIN TASK USING (globalTaskId)"
        " JOIN STRING_IDS AS type ON type.id = opType ORDER BY startNs"
    )
    with closing(sqlite3.connect(written.path("ascend_pytorch_profiler.db"))) as db:
        kernels = db.execute(query).fetchall()
        steps = db.execute("SELECT id FROM STEP_TIME ORDER BY id").fetchall()
    launches = Ascend.launch_log(collected.log)[-STEPS * PER_STEP :]
    assert kernels == [(launch.op_type, launch.end_ns - launch.start_ns) for launch in launches]
    assert steps == [(1,), (2,), (3,)]


def test_values_equal_those_of_the_cpu(ascend: Ascend) -> None:
    run = ascend.python(HERE / "values_against_cpu.py", cpu_values=True)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line for line in lines if not line.endswith(": equal")] == []
    assert len(lines) > 50
