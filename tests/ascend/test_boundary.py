"""What reaches the runtime is what was asked for: the profiler's configuration, the schedule, and every operator."""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal

import pytest

from .stand_in import Launch
from .workflow_run import ITERATIONS, MAIN, TEN, WARMUP, Sweep, Traffic

PIPE_UTILIZATION, DATA_OF_LEVEL1 = 1, 0x27
CASES = (MAIN, *(f"{golden}/smoke" for golden in TEN))


def op_types(launches: list[Launch]) -> list[str]:
    return [launch.op_type for launch in launches]


def golden_alone(traffic: Traffic) -> list[Launch]:
    """The golden's operators as the pass without a profiler launched them."""
    unprofiled = traffic.iterations(traffic.between("", "aclprofInit"))
    assert len(unprofiled) == ITERATIONS
    return unprofiled[0]


@pytest.mark.parametrize("case", CASES)
def test_the_profiler_is_configured_once_for_level1_and_pipe_utilization_on_the_device(sweep: Sweep, case: str) -> None:
    traffic = sweep.traffic(case)
    config = traffic.call("aclprofCreateConfig").arguments
    assert config == {"devices": [0], "metrics": PIPE_UTILIZATION, "data_types": DATA_OF_LEVEL1}
    names = [call.name for call in traffic.calls if call.name.startswith("aclprof")]
    assert [name for name in names if name != "aclprofCreateConfig"] == [
        "aclprofInit",
        "aclprofWarmup",
        "aclprofStart",
        "aclprofStop",
        "aclprofFinalize",
    ]
    assert {launch.device for launch in traffic.launches} == {0}


@pytest.mark.parametrize("case", CASES)
def test_the_schedule_is_one_warm_up_step_and_as_many_active_ones_as_iterations(sweep: Sweep, case: str) -> None:
    traffic = sweep.traffic(case)

    def noises(first: str, last: str) -> int:
        return sum(map(traffic.is_noise, traffic.between(first, last)))

    assert noises("", "aclprofInit") == ITERATIONS  # the pass without a profiler
    assert noises("aclprofWarmup", "aclprofStart") == 1
    assert noises("aclprofStart", "aclprofStop") == ITERATIONS
    assert traffic.between("aclprofStop", "") == []
    (capture,) = sweep.project.folder(case).glob("*_ascend_pt")
    info = json.loads((capture / "profiler_info.json").read_text())["config"]["common_config"]
    assert info["schedule"] | {"skip_first_wait": 0} == {
        "wait": 0,
        "warmup": 1,
        "active": ITERATIONS,
        "repeat": 1,
        "skip_first": 0,
        "skip_first_wait": 0,
    }
    assert info["activities"] == ["ProfilerActivity.CPU", "ProfilerActivity.NPU"]


@pytest.mark.parametrize("case", CASES)
def test_the_golden_is_called_for_the_check_and_the_warm_up_before_anything_is_timed(sweep: Sweep, case: str) -> None:
    traffic = sweep.traffic(case)
    before = traffic.between("", "aclprofInit")
    first_noise = next(i for i, launch in enumerate(before) if traffic.is_noise(launch))
    calls = op_types(golden_alone(traffic)) * (1 + WARMUP)
    assert op_types(before[:first_noise])[-len(calls) :] == calls


@pytest.mark.parametrize("case", CASES)
def test_every_step_has_one_noise_and_one_golden_region(sweep: Sweep, case: str) -> None:
    (capture,) = sweep.project.folder(case).glob("*_ascend_pt")
    text = (capture / "ASCEND_PROFILER_OUTPUT/trace_view.json").read_text()
    regions = Counter(re.findall(r'"name": ?"(goldenprof::\w+#-?\d+)"', text))
    wanted = [f"goldenprof::{kind}#{k}" for kind in ("noise", "golden") for k in range(ITERATIONS)]
    assert regions == dict.fromkeys(wanted, 1)


@pytest.mark.parametrize("case", CASES)
def test_what_is_launched_after_the_noise_is_the_goldens_table_and_nothing_else(sweep: Sweep, case: str) -> None:
    traffic = sweep.traffic(case)
    captured = traffic.between("aclprofStart", "aclprofStop")
    steps = traffic.iterations(captured)
    assert len(steps) == ITERATIONS
    table = Counter({(row.op, row.core): row.count for row in traffic.perf.ops})
    for launches, total in zip(steps, traffic.perf.iterations, strict=True):
        assert Counter((launch.op_type, launch.core) for launch in launches) == table
        assert len(launches) == total.kernels
        assert sum(Decimal(launch.end_ns - launch.start_ns) for launch in launches) / 1000 == total.device_total_us
        assert op_types(launches) == op_types(golden_alone(traffic))
        assert [launch.inputs for launch in launches] == [launch.inputs for launch in golden_alone(traffic)]
    dropped = Counter(row.rule for row in traffic.perf.dropped)
    assert dropped == {"noise": ITERATIONS}, "the noise alone is apart"
    assert len(captured) == ITERATIONS + sum(map(len, steps))


def test_ten_goldens_are_looked_at(sweep: Sweep) -> None:
    assert len({case.split("/")[0] for case in CASES}) == 10
    assert sweep.project.perf("apply_adam_w_v2_golden/smoke").profile.restored
