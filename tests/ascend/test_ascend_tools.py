"""Ascend's own reader opens what the workflow leaves: captures of the NPU, and of the CPU in the same format."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from scripts import measure
from scripts.cases import Settings
from scripts.devices import identity
from scripts.devices.cpu import CpuDevice

from .readers import MsprofAnalyze, ReaderUnavailable, install
from .workflow_run import MAIN, Sweep

ITERATIONS = 3


@pytest.fixture(scope="module")
def msprof_analyze() -> MsprofAnalyze:
    try:
        return install()
    except ReaderUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def npu_capture(sweep: Sweep) -> Path:
    (capture,) = sweep.project.folder(MAIN).glob("*_ascend_pt")
    return capture


@pytest.fixture(scope="module")
def cpu_capture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A product and a softmax, measured by the CPU's adapter."""
    threads = torch.get_num_threads()
    device = CpuDevice(identity.resolve("cpu"))
    noise = measure.noise_of(Settings(noise_mib=8), device)
    x = torch.randn(128, 128)
    golden = measure.prepare(device, lambda x: torch.softmax(x @ x, -1), (x,), {}, ["x"], noise)
    golden.check()
    capture = device.capture(golden.iterate, ITERATIONS, tmp_path_factory.mktemp("cpu"))
    yield device.finish(capture).folder
    torch.set_num_threads(threads)


def totals_us(capture: Path) -> dict[tuple[str, str], tuple[float, int]]:
    """Total duration and number of calls per Type and Input Shapes."""
    durations: dict[tuple[str, str], list[float]] = defaultdict(list)
    with (capture / "ASCEND_PROFILER_OUTPUT/kernel_details.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            durations[row["Type"], row["Input Shapes"]].append(float(row["Duration(us)"]))
    return {key: (sum(values), len(values)) for key, values in durations.items()}


def compared(rows: list[list[str]], first: int) -> dict[tuple[str, str], tuple[float, int]]:
    """Total and calls by kernel and shapes of one side of a comparison, whose columns begin at `first`."""
    own = [row for row in rows[2:] if row[first + 4]]
    return {(row[1], row[2]): (pytest.approx(float(row[first]), abs=0.02), int(row[first + 4])) for row in own}


def test_the_advisor_adds_up_a_capture_of_the_workflow(
    msprof_analyze: MsprofAnalyze, npu_capture: Path, tmp_path: Path
) -> None:
    findings = msprof_analyze.advise(npu_capture, tmp_path)
    computing_us = sum(total for total, _ in totals_us(npu_capture).values())
    assert findings.summary_ms["Computing Time"] == pytest.approx(computing_us / 1000, abs=1e-3)
    assert "Operator No Bound Issues" in findings.problems or "Vector Operator Perf Analysis" in findings.problems


def test_the_advisor_adds_up_a_capture_of_the_cpu(
    msprof_analyze: MsprofAnalyze, cpu_capture: Path, tmp_path: Path
) -> None:
    findings = msprof_analyze.advise(cpu_capture, tmp_path)
    totals = totals_us(cpu_capture)
    assert {"aten::mm", "aten::_softmax", "aten::max"} <= {op for op, _ in totals}
    computing_us = sum(total for total, _ in totals.values())
    # an operator's own time is shown in one piece, so that those that it calls may lie in it
    assert findings.summary_ms["Computing Time"] == pytest.approx(computing_us / 1000, rel=0.05)


def test_compare_finds_every_kernel_of_both(
    msprof_analyze: MsprofAnalyze, npu_capture: Path, cpu_capture: Path, tmp_path: Path
) -> None:
    rows = msprof_analyze.compare_kernels(npu_capture, cpu_capture, tmp_path)
    assert compared(rows, 3) == totals_us(cpu_capture)
    assert compared(rows, 8) == totals_us(npu_capture)
