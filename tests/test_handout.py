"""A job has its device for itself: locked, alone in its sight, and idle when the run first uses it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts import handout, locks
from scripts.devices import identity, usage, visible
from scripts.devices.identity import DeviceIdentity
from scripts.errors import CaseFailure
from scripts.status import Status

NPU = DeviceIdentity("npu", 1, "Ascend910B3", physical_id="5")
GPU = DeviceIdentity("cuda", 0, "H200", physical_id="GPU-1a")
USAGES = """
	NPU ID                         : 2
	Chip Count                     : 2

	HBM Usage Rate(%)              : 5
	Aicore Usage Rate(%)           : {percent}
	Aicpu Usage Rate(%)            : 99
"""
MAPPING = """
	NPU ID                         Chip ID                        Chip Logic ID                  Chip Name
	2                              0                              4                              Ascend 910B3
	2                              1                              5                              Ascend 910B3
	2                              2                              -                              Mcu
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("GOLDENPROF_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setattr(usage, "PAUSE_S", 0.0)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    identity.resolve.cache_clear()
    yield tmp_path
    identity.resolve.cache_clear()


@pytest.fixture
def tool(place: Path) -> Callable[[str, str], None]:
    """Puts a program on PATH that is the given shell script."""

    def make(name: str, script: str) -> None:
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(stat.S_IRWXU)

    return make


def npu_smi(percent: int) -> str:
    return (
        f'case "$*" in\n"info -m") cat <<"END"\n{MAPPING}END\n;;\n'
        f'"info -t usages -i 2 -c 1") cat <<"END"\n{USAGES.format(percent=percent)}END\n;;\nesac'
    )


def test_an_npu_that_others_use_is_busy(tool: Callable[[str, str], None]) -> None:
    tool("npu-smi", npu_smi(87))
    assert usage.busy(NPU) == (
        "npu:1 is busy with other work: 87, 87, 87, 87 % in 4 looks, 0 s apart, and 30 % is the limit."
    )


def test_a_gpu_that_is_idle_at_one_look_is_not_busy(tool: Callable[[str, str], None], place: Path) -> None:
    tool("nvidia-smi", f'echo look >> "{place}/looks"; [ $(wc -l < "{place}/looks") -lt 3 ] && echo 95 || echo 4')
    assert usage.busy(GPU) == ""
    assert (place / "looks").read_text().count("look") == 3


@pytest.mark.parametrize("device", [NPU, GPU, DeviceIdentity("cpu", 0, "EPYC × 1", physical_id="0")])
def test_what_is_not_known_is_not_busy(tool: Callable[[str, str], None], device: DeviceIdentity) -> None:
    for name in ("npu-smi", "nvidia-smi"):
        tool(name, "echo '[N/A]'; exit 9")
    assert usage.busy(device) == ""


@pytest.mark.parametrize(
    ("device", "variable", "value"),
    [(NPU, "ASCEND_RT_VISIBLE_DEVICES", "5"), (GPU, "CUDA_VISIBLE_DEVICES", "GPU-1a")],
)
def test_the_others_are_hidden(
    device: DeviceIdentity, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "4,5")
    visible.show_only(device)
    assert os.environ[variable] == value


def test_a_device_is_number_0_where_it_is_alone_and_keeps_its_number_where_it_is_not() -> None:
    assert visible.index_here(NPU, 1) == 0
    assert visible.index_here(NPU, 4) == 1


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two NPUs, neither of them opened by anything here."""
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "4,5")
    monkeypatch.setattr(
        identity, "survey", lambda kind: identity.Survey(kind, ("Ascend910B3",) * 2, ids=("4", "5"), looked_for="–")
    )


def test_the_first_free_device_is_handed_out_and_opened(two: None) -> None:
    phases: list[str] = []
    with locks.hold("npu:4"), handout.device_for("auto", ("npu:0", "npu:1"), phases.append) as device:
        assert (device.name, os.environ["ASCEND_RT_VISIBLE_DEVICES"]) == ("npu:1", "5")
    assert phases == ["opening npu:1"]


def test_a_busy_device_is_refused_at_its_first_use_alone(two: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "_percent", lambda device: 99)
    first_use = handout.device_for("auto", ("npu:0",), lambda phase: None, unchecked={"npu:0"})
    with pytest.raises(CaseFailure, match="npu:0 is busy with other work") as refused, first_use:
        pass
    assert refused.value.status is Status.DEVICE_UNAVAILABLE
    with handout.device_for("auto", ("npu:0",), lambda phase: None) as device:
        assert device.physical_id == "4"


def test_without_a_list_a_device_is_as_it_was(two: None) -> None:
    phases: list[str] = []
    with handout.device_for("npu:1", (), phases.append) as device:
        assert (device.name, os.environ["ASCEND_RT_VISIBLE_DEVICES"]) == ("npu:1", "4,5")
    assert phases == ["running"]


def test_other_work_keeps_off_a_part_of_the_cpu_that_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("two cores are needed to split the CPU")
    first, second = f"cpu:{cores[0]}", f"cpu:{cores[1]}"
    monkeypatch.setattr(identity, "usable_cores", lambda: frozenset(cores[:2]))
    key = "0123456789ab-cpu-01234567"
    with locks.hold(identity.resolve(first).lock), handout.room_beside(key, (first, second)).enter() as given:
        assert given == {cores[1]}
    with locks.hold(identity.resolve(first).lock), handout.room_beside(key, (first,)).enter() as given:
        assert given == {cores[1]}, "the second core is in no part"
    with handout.room_beside(key, ()).enter() as given:
        assert given == set(cores[:2])


def test_other_work_for_an_accelerator_waits_for_nothing() -> None:
    with locks.hold("cpu"), handout.room_beside("0123456789ab-npu-01234567", ("npu:0",)).enter():
        pass


def test_the_share_of_busy_cores_is_seen() -> None:
    core = min(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, [{core}])\nprint(flush=True)\nwhile True: pass"
    spinning = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        spinning.stdout.readline()
        assert usage.busy_share([core]) > 0.5
    finally:
        spinning.kill()
        spinning.wait()


def test_a_process_that_was_kept_on_some_cores_measures_on_no_others() -> None:
    """`goldenprof compare` measures case after case in one process, and its threads stay where they were started."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("two cores are needed to split the CPU")
    code = f"""
from scripts import handout
from scripts.devices import cpu
from scripts.errors import CaseFailure
import torch
for name in ("cpu:{cores[0]}", "cpu:{cores[0]}", "cpu:{cores[1]}", "cpu"):
    with handout.device_for(name, (), lambda phase: None) as device:
        try:
            cpu.CpuDevice(device)
            print(name, torch.get_num_threads())
        except CaseFailure as failure:
            print(failure.message.partition(" in ")[0])
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert told.stdout.splitlines() == [
        f"cpu:{cores[0]} 1",
        f"cpu:{cores[0]} 1",
        f"cpu:{cores[1]} cannot be measured",
        "cpu cannot be measured",
    ], told.stdout + told.stderr
