"""Four NPUs in one run: every one is used, none by two cases at once, and one that does not work is taken out."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts import artifacts
from scripts.artifacts import ProfileRecord
from tests.workflow.conftest import Project, Run, new_project

from .stand_in import Ascend

FREE = tuple(f"c{k}" for k in range(7))
CASES = """
devices: all
defaults: {warmup: 1, iterations: 2, noise_mib: 8}
operators:
  small_golden:
    golden: golden/small_golden.py
    function: small_golden
    mode: A
    cases:
      pinned: {device: "npu:1", inputs: {x: {shape: [99], dtype: float32}}}
      lost: {device: "npu:0", inputs: {x: {shape: [98], dtype: float32}}}
"""
CASES += "".join(
    f"      {name}: {{inputs: {{x: {{shape: [{100 + k}], dtype: float32}}}}}}\n" for k, name in enumerate(FREE)
)
SICK, DEAF, HUNG = 2, 0, 3  # device 2 cannot be opened, device 0 collects nothing, device 3 does not answer


@dataclass(frozen=True)
class Session:
    """A project after a run on four devices."""

    project: Project
    run: Run
    log: Path

    def record(self, name: str) -> ProfileRecord:
        return artifacts.read(self.project.folder(f"small_golden/{name}") / "profile.json", ProfileRecord)

    def held(self) -> dict[str, list[tuple[int, int]]]:
        """When each device was used by each process that launched on it, from its first to its last launch."""
        spans: dict[tuple[int, int], list[int]] = defaultdict(list)
        for launch in Ascend.launch_log(self.log):
            spans[launch.device, launch.pid] += [launch.start_ns, launch.end_ns]
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for (device, _), times in sorted(spans.items()):
            found[str(device)].append((min(times), max(times)))
        return found


def session(
    ascend: Ascend,
    folder: Path,
    *,
    faults: str = "",
    cases: tuple[str, ...] = ("pinned", *FREE),
    **variables: str,
) -> Session:
    (folder / "project").mkdir()
    project = new_project(folder / "project")
    project.cases(CASES)
    log = folder / "log.jsonl"
    extra = {"GOLDENPROF_LOCK_DIR": str(folder / "locks"), **variables}
    environment = ascend.environment(log=log, devices=4, faults=faults, extra=extra)
    targets = [f"reports/small_golden/{name}.md" for name in cases]
    return Session(project, project.run("-j8", *targets, **environment), log)


@pytest.fixture(scope="module")
def four(ascend: Ascend, tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session(ascend, tmp_path_factory.mktemp("four"), faults="slow=2000")


@pytest.fixture(scope="module")
def sick(ascend: Ascend, tmp_path_factory: pytest.TempPathFactory) -> Session:
    faults = f"slow=2000,device_busy={SICK},capture_fails={DEAF},sync_hangs={HUNG}"
    return session(ascend, tmp_path_factory.mktemp("sick"), faults=faults, GOLDENPROF_OPENING_S="12")


def test_every_device_is_used_and_none_by_two_cases_at_once(four: Session) -> None:
    assert four.run.code == 0, four.run.output
    held = four.held()
    assert held.keys() == {"0", "1", "2", "3"}
    for spans in held.values():
        for (_, end), (begin, _) in itertools.pairwise(sorted(spans)):
            assert end < begin
    spans = [(device, *span) for device, found in held.items() for span in found]
    together = [(a, b) for a, b in itertools.combinations(spans, 2) if a[1] < b[2] and b[1] < a[2]]
    assert together, "devices measure at the same time"


def test_the_physical_id_is_recorded_and_is_the_captures(four: Session) -> None:
    for name in (*FREE, "pinned"):
        record, folder = four.record(name), four.project.folder(f"small_golden/{name}")
        device = record.device
        assert device.name == f"npu:{device.physical_id}"
        assert [path.name for path in folder.glob("*_ascend_pt/PROF_*/device_*")] == [f"device_{device.physical_id}"]
        assert record.environment["ASCEND_RT_VISIBLE_DEVICES"] == device.physical_id
        assert f"npu:{device.physical_id}" in four.project.report(f"small_golden/{name}")


def test_a_pinned_case_is_measured_where_it_is_pinned(four: Session) -> None:
    assert four.record("pinned").device.name == "npu:1"


def test_devices_of_one_model_share_a_key(four: Session) -> None:
    assert len({four.record(name).key.rpartition("-")[2] for name in (*FREE, "pinned")}) == 1


def test_a_device_that_does_not_work_is_taken_out_with_its_reason_and_its_cases_go_to_others(sick: Session) -> None:
    assert sick.run.code == 0, sick.run.output
    assert f"npu:{SICK} is taken out of this run: npu:{SICK} cannot be used: " in sick.run.output
    assert f"npu:{DEAF} is taken out of this run: The profiler " in sick.run.output
    assert f"npu:{HUNG} is taken out of this run: npu:{HUNG} could not be opened within 12 s." in sick.run.output
    assert {sick.record(name).device.physical_id for name in (*FREE, "pinned")} == {"1"}
    for device in (SICK, DEAF, HUNG):
        assert sick.run.output.count(f"npu:{device} is taken out of this run") <= 4  # jobs that had it already
    assert not list((sick.project.path / "prof").rglob("failure.json"))
    assert not list((sick.project.path / "prof").rglob("probe"))
    logs = "".join(path.read_text() for path in (sick.project.path / "prof").rglob("profile.log"))
    assert f"[goldenprof] npu:{SICK} is taken out of this run" in logs


def test_what_a_scheduler_has_made_visible_is_all_there_is(ascend: Ascend, tmp_path: Path) -> None:
    """It shows devices 3 and 1, in this order; the first cannot be opened, and a case is pinned to it."""
    faults, cases = "slow=2000,device_busy=3", ("lost", *FREE[:2])
    done = session(ascend, tmp_path, faults=faults, cases=cases, ASCEND_RT_VISIBLE_DEVICES="3,1")
    for name in FREE[:2]:
        device = done.record(name).device
        assert (device.name, device.physical_id) == ("npu:1", "1")
    assert done.held().keys() == {"1"}
    assert done.run.code == 1
    assert "No device is left for small_golden/lost. npu:0: npu:0 cannot be used:" in done.run.output
    assert done.project.failure("small_golden/lost").status == "device_unavailable"
