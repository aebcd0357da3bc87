"""A CUDA GPU as a device: its kernels and copies as CUPTI reports them, typed by the operator that launched them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from scripts.artifacts import DeviceInfo, Region
from scripts.devices import capture_format, torch_events, visible
from scripts.devices.base import Capture
from scripts.devices.identity import DeviceIdentity
from scripts.devices.kernel_event import KernelEvent, OpStatistic
from scripts.errors import CaseFailure
from scripts.status import Status


class CudaDevice:
    """Profiles with torch.profiler and CUPTI; see `Device` for the protocol."""

    noise_types: tuple[str, ...] = ("aten::max",)
    level = ""

    def __init__(self, identity: DeviceIdentity) -> None:
        self.identity = identity
        if not torch.cuda.is_available():
            raise CaseFailure(
                Status.DEVICE_UNAVAILABLE,
                f"{identity.name} was found by nvidia-smi, but torch {torch.__version__} cannot use it.",
                "Compare the driver with the CUDA version that torch was built for.",
            )
        self.torch_device = torch.device("cuda", visible.index_here(identity, torch.cuda.device_count()))
        torch.cuda.set_device(self.torch_device)
        self._profile: profile | None = None

    def info(self) -> DeviceInfo:
        """The GPU as torch names it, with its UUID."""
        properties = torch.cuda.get_device_properties(self.torch_device)
        physical_id = self.identity.physical_id or str(getattr(properties, "uuid", ""))
        return DeviceInfo("cuda", self.identity.name, properties.name, physical_id)

    def warnings(self) -> list[str]:
        """Nothing is known that disturbs a GPU's numbers before they are taken."""
        return []

    def synchronize(self) -> None:
        """Wait for every stream of the GPU."""
        torch.cuda.synchronize(self.torch_device)

    def capture(self, iterate: Callable[[int], Region], iterations: int, folder: Path) -> Capture:
        """Run every iteration under torch.profiler with CPU and CUDA activity."""
        self._profile = torch_events.new_profiler([ProfilerActivity.CPU, ProfilerActivity.CUDA])
        torch_events.run_steps(self._profile, iterate, iterations)
        return Capture(capture_format.new_folder(folder), [])

    def finish(self, capture: Capture) -> Capture:
        """Write the device's kernels and copies, each with the type and shapes of the operator that launched it."""
        assert self._profile is not None, "finish() follows capture()"
        events = torch_events.raw(self._profile)
        steps = torch_events.regions(events, torch_events.STEP_LABEL)
        regions = torch_events.golden_regions(events, steps)
        kernels = device_kernels(events, steps)
        capture_format.write(
            capture.folder,
            kernels,
            device_statistics(self._profile.events()),
            torch_events.info(["CPU", "CUDA"], len(steps)),
        )
        return Capture(capture.folder, regions)


def device_kernels(events: Iterable[Any], steps: list[Region]) -> list[KernelEvent]:
    """Kernels and copies on the device; both clocks are the host's, since CUPTI's stamps are converted to it."""
    events = list(events)
    launchers = {op.correlation: op for op in torch_events.operators(events)}
    kernels = []
    for event in events:
        if (
            event.device_type() != torch.autograd.DeviceType.CUDA
            or event.is_user_annotation()
            or event.name().startswith(torch_events.LABEL_PREFIX)
        ):
            continue
        launcher = launchers.get(event.linked_correlation_id())
        kernels.append(
            KernelEvent(
                step_id=torch_events.step_of(event.start_ns(), steps),
                name=event.name(),
                op_type=launcher.name if launcher else own_type(event.name()),
                core=core_of(event.name()),
                start_ns=event.start_ns(),
                duration_ns=event.duration_ns(),
                shapes=launcher.shapes if launcher else (),
                dtypes=launcher.dtypes if launcher else (),
                stream=event.device_resource_id(),
                device=event.device_index(),
            )
        )
    return kernels


def device_statistics(function_events: Iterable[Any]) -> list[OpStatistic]:
    """Count and total per (type, core) as torch.profiler itself assigns kernels to the operators that launched them.

    `function_events` are `profile.events()`: an operator's `kernels` are the ones that torch linked to it; a device
    event that torch linked to none is its own type.
    """
    events = list(function_events)
    rows: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(op_type: str, name: str, duration_us: float) -> None:
        row = rows[op_type, core_of(name)]
        row[0] += 1
        row[1] += round(duration_us * 1000)

    for event in events:
        for kernel in event.kernels:
            add(event.name, kernel.name, kernel.duration)
    operators = {event.id for event in events if event.kernels}
    for event in events:
        on_device = event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation
        if on_device and event.linked_correlation_id not in operators:
            add(own_type(event.name), event.name, event.time_range.elapsed_us())
    return [OpStatistic(op_type, core, count, total) for (op_type, core), (count, total) in rows.items()]


def core_of(name: str) -> str:
    """Whether a device event is a kernel or moves memory."""
    return "MEMORY" if name.startswith(("Memcpy", "Memset")) else "CUDA"


def own_type(name: str) -> str:
    """The type of a kernel that no operator launched: its name without template arguments."""
    return name.partition("<")[0]
