"""Ascend's own tools read the folders that a run on the stand-in wrote, and find in them what is there."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from .captures import GOLDEN, STEPS, Capture, take
from .readers import Findings, MsprofAnalyze, ReaderUnavailable, install
from .stand_in import Ascend


@pytest.fixture(scope="module")
def msprof_analyze() -> MsprofAnalyze:
    try:
        return install()
    except ReaderUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def capture(msprof_analyze: MsprofAnalyze, ascend: Ascend, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return take(ascend, tmp_path_factory.mktemp("capture"), "--noise-mib=64")


@pytest.fixture(scope="module")
def baseline(msprof_analyze: MsprofAnalyze, ascend: Ascend, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return take(ascend, tmp_path_factory.mktemp("baseline"), "--noise-mib=64", "--steps=2")


@pytest.fixture(scope="module")
def findings(msprof_analyze: MsprofAnalyze, capture: Capture, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return msprof_analyze.advise(capture.folder, tmp_path_factory.mktemp("advisor"))


def totals_us(capture: Capture) -> dict[tuple[str, str], tuple[float, int]]:
    """Total duration and number of calls per Type and Input Shapes."""
    durations: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in capture.table("kernel_details.csv"):
        durations[row["Type"], row["Input Shapes"]].append(float(row["Duration(us)"]))
    return {key: (round(sum(values), 3), len(values)) for key, values in durations.items()}


def test_advisor_adds_up_the_computing_time(findings: Findings, capture: Capture) -> None:
    computing_us = sum(total for total, _ in totals_us(capture).values())
    assert findings.summary_ms["Computing Time"] == pytest.approx(computing_us / 1000, abs=1e-3)


def test_advisor_tells_matrix_products_from_vector_operators(findings: Findings, capture: Capture) -> None:
    products_us = sum(total for (op_type, _), (total, _) in totals_us(capture).items() if op_type == "MatMul")
    assert products_us > 0
    assert findings.summary_ms["-- Matmul"] == pytest.approx(products_us / 1000, abs=1e-3)


def test_advisor_reads_the_pipe_columns(findings: Findings) -> None:
    unbound = findings.problems["Operator No Bound Issues"]
    assert int(str(unbound["problem count"])) >= len(GOLDEN) * STEPS
    assert "SoftmaxV2" in str(unbound["description"])


def test_compare_finds_every_kernel_of_both(
    msprof_analyze: MsprofAnalyze, capture: Capture, baseline: Capture, tmp_path: Path
) -> None:
    rows = msprof_analyze.compare_kernels(capture.folder, baseline.folder, tmp_path)[2:]
    base = {(row[1], row[2]): (round(float(row[3]), 3), int(row[7])) for row in rows}
    compared = {(row[1], row[2]): (round(float(row[8]), 3), int(row[12])) for row in rows}
    assert base == totals_us(baseline)
    assert compared == totals_us(capture)
