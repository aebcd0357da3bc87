"""The device's peaks in the workflow: a sweep measures them first, once; a single report never asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import artifacts
from scripts.peaks import PeaksRecord
from tests.workflow.conftest import Project

CASES = """
    defaults: {warmup: 1, iterations: 3, noise_mib: 8}
    operators:
      softmax_golden:
        golden: golden/small_golden.py
        function: softmax_golden
        mode: A
        cases:
          small: {inputs: {x: {shape: [64, 256], dtype: float32}}}
          other: {inputs: {x: {shape: [64, 512], dtype: float32}}}
"""
SMALL, OTHER = "reports/softmax_golden/small.md", "reports/softmax_golden/other.md"


@pytest.fixture(scope="module")
def project(shared_project: object) -> Project:
    made = shared_project("peaks")
    made.cases(CASES)
    made.first = made.run("-j1", SMALL)
    made.second = made.run("-j1")
    return made


def test_a_single_report_asks_for_no_peaks(project: Project) -> None:
    assert project.first.code == 0, project.first.output
    assert "device_peaks" not in project.first.finished


def test_a_sweep_measures_them_once_and_shows_them_in_reports_that_were_there_before(project: Project) -> None:
    assert project.second.code == 0, project.second.output
    assert project.second.finished.count("device_peaks") == 1
    [path] = (project.path / "prof/.devices").glob("*/peaks.json")
    record = artifacts.read(path, PeaksRecord)
    assert record.of("float32").tflops > 0
    for name in (SMALL, OTHER):
        assert "Peak of float32 on " in (project.path / name).read_text()
    assert project.run("-j1").nothing_to_do
    assert project.run("-n", SMALL).nothing_to_do


def test_peaks_that_are_measured_again_are_shown_on_every_page_that_shows_them(project: Project) -> None:
    pages = {"report", "summary", "page"}
    assert set(project.run("-n", "--forcerun", "device_peaks").planned) == {"device_peaks", *pages}
    assert project.run("-j1", "peaks", "--forcerun", "device_peaks").code == 0
    later = project.run("-j1")
    assert later.code == 0, later.output
    assert set(later.finished) == pages
    assert project.run("-n").nothing_to_do


def test_an_edit_of_one_case_runs_neither_the_others_nor_the_peaks(project: Project) -> None:
    project.cases(CASES.replace("[64, 512]", "[64, 513]"))
    assert project.run("-n", SMALL).nothing_to_do
    planned = project.run("-n").planned
    assert planned.count("profile") == planned.count("make_inputs") == 1
    assert "device_peaks" not in planned
    project.cases(CASES)


def test_an_operators_report_comes_with_its_roofline(project: Project) -> None:
    assert project.run("-j1", "reports/softmax_golden.md").code == 0
    assert (project.path / "reports/softmax_golden.roofline.svg").read_text().startswith("<svg")


def test_peaks_that_cannot_be_measured_leave_a_record_and_fail_nothing(project: Project, tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    [path] = (project.path / "prof/.devices").glob("*/peaks.json")
    path.unlink()
    done = project.run("-j1", "peaks", GOLDENPROF_LOCK_DIR=str(no_folder))
    assert done.code == 0, done.output
    record = artifacts.read(path, PeaksRecord)
    assert "NotADirectoryError" in record.problem
    assert (record.peaks, record.cache, record.device.kind) == ([], None, "cpu")
    assert project.run("-j1", SMALL).code == 0
    report = (project.path / SMALL).read_text()
    assert "Peak: could not be measured on cpu: NotADirectoryError" in report
    assert "--forcerun device_peaks" in report
