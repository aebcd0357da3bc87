"""The CPU as two devices: each case is measured on the cores of one of them, and the key says how many they are."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts import artifacts, cli
from scripts.artifacts import ProfileRecord
from tests.workflow.conftest import Project, Run

CORES = sorted(os.sched_getaffinity(0))
FIRST, SECOND, WHOLE = f"cpu:{CORES[0]}", f"cpu:{CORES[-1]}", f"cpu:{CORES[0]}-{CORES[-1]}"
FREE = tuple(f"c{k}" for k in range(6))
CASES = f"""
devices: [{FIRST}, {SECOND}]
defaults: {{warmup: 1, iterations: 3, noise_mib: 8}}
operators:
  where_golden:
    golden: golden/where_golden.py
    mode: A
    cases:
      pinned: {{device: "{SECOND}", inputs: {{x: {{shape: [64], dtype: float32}}}}}}
      whole: {{device: "{WHOLE}", inputs: {{x: {{shape: [65], dtype: float32}}}}}}
"""
CASES += "".join(
    f"      {name}: {{inputs: {{x: {{shape: [{100 + k}], dtype: float32}}}}}}\n" for k, name in enumerate(FREE)
)
# It says where it runs, with how many threads, and when, on the clock that all processes share.
GOLDEN = """
    import os
    import time

    import torch

    def where_golden(x):
        time.sleep(0.05)
        print("ran on", sorted(os.sched_getaffinity(0)), torch.get_num_threads(), time.monotonic(), flush=True)
        return x + 1
"""


@dataclass(frozen=True)
class Ran:
    """Where and when a case was measured."""

    cores: list[int]
    threads: int
    begin: float
    end: float

    def overlaps(self, other: Ran) -> bool:
        return self.begin < other.end and other.begin < self.end


@pytest.fixture(scope="module")
def project(shared_project: object) -> Project:
    if len(CORES) < 2 or CORES[-1] - CORES[0] != len(CORES) - 1:
        pytest.skip(f"cores in a row are needed to split the CPU, two at least; this process may use {CORES}")
    made = shared_project("split")
    made.golden("where_golden", GOLDEN)
    made.cases(CASES)
    made.first = made.run("-j8", *(f"reports/where_golden/{name}.md" for name in (*FREE, "pinned", "whole")))
    assert made.first.code == 0, made.first.output
    return made


def ran(project: Project, name: str) -> Ran:
    log = (project.folder(f"where_golden/{name}") / "profile.log").read_text()
    told = re.findall(r"ran on \[([\d, ]+)\] (\d+) ([\d.]+)", log)
    assert told, log
    (cores,), (threads,) = {one[0] for one in told}, {int(one[1]) for one in told[1:]}
    return Ran([int(core) for core in cores.split(",")], threads, float(told[0][2]), float(told[-1][2]))


def record(project: Project, name: str) -> ProfileRecord:
    return artifacts.read(project.folder(f"where_golden/{name}") / "profile.json", ProfileRecord)


def test_a_case_runs_on_the_cores_of_one_device_with_as_many_threads(project: Project) -> None:
    for name in FREE:
        found, device = ran(project, name), record(project, name).device
        assert device.name in (FIRST, SECOND)
        assert [f"cpu:{core}" for core in found.cores] == [device.name]
        assert (device.physical_id, found.threads) == (device.name.removeprefix("cpu:"), 1)
        assert device.model.endswith(" × 1")
        assert record(project, name).environment["threads"] == "1"


def test_both_devices_measure_at_once_and_neither_measures_two_cases_at_once(project: Project) -> None:
    found = {name: ran(project, name) for name in (*FREE, "pinned", "whole")}
    together = [(a, b) for a, b in itertools.combinations(found.values(), 2) if a.overlaps(b)]
    assert together, found
    assert [pair for pair in together if not set(pair[0].cores).isdisjoint(pair[1].cores)] == []


def test_a_pinned_case_runs_where_it_is_pinned(project: Project) -> None:
    assert record(project, "pinned").device.name == SECOND
    assert ran(project, "whole").cores == CORES
    assert record(project, "whole").device.model.endswith(f" × {len(CORES)}")


def test_equal_parts_share_a_key_and_the_whole_has_another(project: Project) -> None:
    environments = {name: record(project, name).key.rpartition("-")[2] for name in (*FREE, "pinned", "whole")}
    assert len({environments[name] for name in (*FREE, "pinned")}) == 1
    assert environments["whole"] != environments["c0"]


def jobs_at_a_time(run: Run) -> int:
    (found,) = re.findall(r"^Provided resources: .*\bdevice=\D*(\d+)", run.output, re.MULTILINE)
    return int(found)


def test_the_number_of_profile_jobs_follows_the_list_unless_it_is_given(project: Project) -> None:
    assert jobs_at_a_time(project.first) == 3  # the two, and the cores that a case is pinned to
    forced = ("-j8", "--forcerun", "report")
    for options, jobs in ((("--resources", "device=2"), 2), (("--resources", "mem_mb=9999"), 3)):
        told = project.run(*forced, *options, "--", "reports/where_golden/c0.md")
        assert told.code == 0, told.output
        assert jobs_at_a_time(told) == jobs


def test_a_part_that_is_not_here_is_taken_out_and_the_other_measures(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The case was on the other part before; the two results can be compared, and the physical device is listed."""
    name = next(name for name in FREE if record(project, name).device.name == SECOND)
    before = shutil.copytree(project.folder(f"where_golden/{name}"), tmp_path / "on_second")
    forced = ("--forcerun", "profile", "--config", f"devices={FIRST},cpu:4000", "--", f"reports/where_golden/{name}.md")
    run = project.run("-j1", *forced)
    assert run.code == 0, run.output
    assert "cpu:4000 is taken out of this run: Cores 4000 cannot be used" in run.output
    assert "1 of 3 devices can measure at a time; `-j5` allows jobs for all." in run.output
    assert record(project, name).device.name == FIRST
    monkeypatch.chdir(project.path)
    assert cli.main(["compare", str(before), f"prof/where_golden/{name}"]) == 0
    told = capsys.readouterr().out
    assert f"physical device is {CORES[-1]} against {CORES[0]}" in told


def test_no_device_at_all_is_one_clear_failure(project: Project) -> None:
    asked = ("--config", "devices=cpu:4000,cpu:4001", "iterations=2", "--", "reports/where_golden/c2.md")
    run = project.run("-j8", *asked)
    assert run.code == 1
    assert "device_unavailable" in run.output
    assert "Cores 4000 cannot be used" in run.output
    assert "Cores 4001 cannot be used" in run.output
