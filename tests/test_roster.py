"""A device that does not work is taken out of the run; a failure of a case is not held against its device."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from scripts.cases import Case, Settings
from scripts.errors import CaseFailure
from scripts.plan import PlannedCase
from scripts.status import Status
from scripts.warm import roster
from scripts.warm.output import Output
from scripts.warm.roster import Roster, Trail

CASE = Case("a_golden", "one", "a.py", None, "B", (), Settings())
PLANNED = PlannedCase(CASE, "0123456789ab-npu-01234567", devices=("npu:0", "npu:1", "npu:2"))
FAILED = CaseFailure(Status.PROFILER_FAILED, "nothing was collected")
SICK = CaseFailure(Status.DEVICE_UNAVAILABLE, "npu:0 cannot be used: busy")
HUNG = CaseFailure(Status.TIMEOUT, "it did not end")


def test_devices_take_turns_and_those_that_are_out_are_left_out() -> None:
    devices = Roster()
    assert {devices.left(PLANNED).devices[0] for _ in range(3)} == set(PLANNED.devices)
    devices.out["npu:1"] = "it is broken"
    assert set(devices.left(PLANNED).devices) == {"npu:0", "npu:2"}
    assert "npu:1: it is broken" in devices.none_left(PLANNED).message


def test_a_device_that_cannot_be_opened_is_out_and_the_case_goes_on() -> None:
    devices = Roster()
    following = devices.after_failure("profile", "npu:0", "opening npu:0", SICK, Trail())
    assert (following.step, following.device) == ("profile", "")
    assert following.trail.notes == ("npu:0 is taken out of this run: npu:0 cannot be used: busy",)
    assert devices.out.keys() == {"npu:0"}


@pytest.mark.parametrize("failure", [FAILED, HUNG])
def test_a_device_in_doubt_is_probed_and_out_if_that_fails(failure: CaseFailure) -> None:
    devices = Roster()
    probe = devices.after_failure("profile", "npu:0", "running", failure, Trail())
    assert (probe.step, probe.device, probe.trail.failure) == ("probe", "npu:0", failure)
    assert not devices.out, "a probe that passes leaves the failure with the case"
    again = devices.after_failure("profile", "npu:0", "running", FAILED, probe.trail)
    assert (again.step, again.trail.failure) == ("profile", None)
    assert devices.out == {"npu:0": "nothing was collected"}


def test_after_two_devices_that_work_no_more_the_case_is_to_blame() -> None:
    devices, trail = Roster(), Trail()
    for name, step in (("npu:0", "profile"), ("npu:1", "")):
        probe = devices.after_failure("profile", name, "running", HUNG, trail)
        following = devices.after_failure("profile", name, "opening npu:0", FAILED, probe.trail)
        assert following.step == step
        trail = following.trail
    assert trail.failure is HUNG
    assert len(trail.notes) == 2


@pytest.mark.parametrize("status", [Status.GOLDEN_FAILED, Status.NO_KERNELS, Status.INCOMPLETE, Status.SKIPPED])
def test_a_failure_of_the_case_itself_is_not_held_against_the_device(status: Status) -> None:
    devices = Roster()
    following = devices.after_failure("profile", "npu:0", "running", CaseFailure(status, "…"), Trail())
    assert following.step == ""
    assert not devices.out


@pytest.mark.parametrize(
    ("phase", "step", "limit"),
    [
        ("waiting", "profile", 0),
        ("opening npu:0", "profile", roster.OPENING_LIMIT_S),
        ("running", "profile", 7),
        ("finishing", "profile", 7),
        ("running", "probe", roster.PROBE_LIMIT_S),
    ],
)
def test_time_counts_from_the_opening_on(phase: str, step: str, limit: float) -> None:
    assert roster.limit_s(phase, step, 7) == limit


def test_a_log_can_be_opened_again_while_a_child_of_another_job_still_holds_it(tmp_path: Path) -> None:
    """A child that is just forked has every descriptor of its parent for a moment."""
    output, writer = Output.open(tmp_path / "profile.log", fresh=True)
    child = os.fork()
    if child == 0:
        time.sleep(20)
        os._exit(0)
    try:
        os.close(writer)
        output.close()
        again, writer = Output.open(tmp_path / "profile.log", fresh=False)
        again.say("second")
        os.close(writer)
        again.close()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert (tmp_path / "profile.log").read_text() == "[goldenprof] second\n"
