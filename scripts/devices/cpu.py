"""The CPU as a device: its kernels are the leaf operators, with the time spent in each itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from scripts.artifacts import DeviceInfo, Region
from scripts.devices import capture_format, torch_events, usage
from scripts.devices.base import Capture
from scripts.devices.identity import DeviceIdentity, cpu_count, usable_cores
from scripts.devices.kernel_event import KernelEvent, OpStatistic
from scripts.errors import CaseFailure
from scripts.status import Status

# Load per core before the run above which a measurement is disturbed.
BUSY_LOAD = 0.75
# The same for some cores, of which a load says nothing: the share of a moment in which they are at work.
BUSY_SHARE = 0.25


class CpuDevice:
    """Profiles with torch.profiler; see `Device` for the protocol."""

    noise_types: tuple[str, ...] = ("aten::max",)
    level = ""

    def __init__(self, identity: DeviceIdentity) -> None:
        self.identity = identity
        _check_cores(identity)
        self.torch_device = torch.device("cpu")
        torch.set_num_threads(cpu_count())
        self._profile: profile | None = None
        self._load = os.getloadavg()[0]
        self._busy = usage.busy_share(identity.cores) if identity.cores else 0.0

    def info(self) -> DeviceInfo:
        """The processor, or the part of its cores that operators use."""
        return DeviceInfo("cpu", self.identity.name, self.identity.model, self.identity.physical_id)

    def warnings(self) -> list[str]:
        """Other work that leaves an operator's threads waiting for each other."""
        if self.identity.cores:
            if self._busy < BUSY_SHARE:
                return []
            return [
                f"Other work kept the cores {self.identity.physical_id} busy ({100 * self._busy:.0f} % before it), "
                "and an operator's time grows by it. Measure again when idle."
            ]
        if self._load < BUSY_LOAD * cpu_count():
            return []
        return [
            f"Other work kept the processor busy (load {self._load:.1f} on {cpu_count()} cores before the run): an "
            "operator's threads wait for each other then, and its time grows many times over. Measure again when idle."
        ]

    def synchronize(self) -> None:
        """Operators on the CPU have ended when they return."""

    def capture(self, iterate: Callable[[int], Region], iterations: int, folder: Path) -> Capture:
        """Run every iteration under torch.profiler with CPU activity and shapes."""
        self._profile = torch_events.new_profiler([ProfilerActivity.CPU])
        torch_events.run_steps(self._profile, iterate, iterations)
        return Capture(capture_format.new_folder(folder), [])

    def finish(self, capture: Capture) -> Capture:
        """Write the leaf operators as kernels, and torch.profiler's own averages beside them."""
        assert self._profile is not None, "finish() follows capture()"
        events = torch_events.raw(self._profile)
        ops = torch_events.operators(events)
        names = torch_events.kernel_names(ops)
        steps = torch_events.regions(events, torch_events.STEP_LABEL)
        regions = torch_events.golden_regions(events, steps)
        kernels = [
            KernelEvent(
                torch_events.step_of(op.start_ns, steps),
                _full_name(op),
                op.name,
                "CPU",
                op.start_ns,
                op.self_ns,
                op.shapes,
                op.dtypes,
            )
            for op in ops
            if op.name in names
        ]
        statistics = [
            OpStatistic(average.key, "CPU", average.count, round(average.self_cpu_time_total * 1000))
            for average in self._profile.key_averages()
            if average.key in names
        ]
        capture_format.write(capture.folder, kernels, statistics, torch_events.info(["CPU"], len(steps)))
        return Capture(capture.folder, regions)


def _check_cores(identity: DeviceIdentity) -> None:
    """This process must run on the cores that the device's model speaks of."""
    if os.sched_getaffinity(0) != (frozenset(identity.cores) or usable_cores()):
        raise CaseFailure(
            Status.DEVICE_UNAVAILABLE,
            f"{identity.name} cannot be measured in this process, which is kept on the cores "
            f"{', '.join(map(str, sorted(os.sched_getaffinity(0))))} since an earlier case was measured there.",
            "Measure cases of different parts of the CPU in calls of their own, or name one for all: `--device`.",
        )


def _full_name(op: torch_events.OpEvent) -> str:
    """The operator, after the one that the golden called when that is another."""
    outermost = op.outermost.name
    return op.name if outermost == op.name else f"{outermost}/{op.name}"
