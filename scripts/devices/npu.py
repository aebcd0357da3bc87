"""An Ascend NPU as a device: torch_npu.profiler collects, and the analysis runs after the device was given free."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from scripts.artifacts import DeviceInfo, Region
from scripts.devices import ascend, npu_analysis, visible
from scripts.devices.base import Capture
from scripts.devices.identity import DeviceIdentity, package_version
from scripts.errors import CaseFailure
from scripts.findings import Finding, Level
from scripts.status import Status


class NpuDevice:
    """Profiles with torch_npu.profiler; see `Device` for the protocol."""

    # The same reduction goes by its graph name or by its level-0 function's, depending on the CANN version.
    noise_types: tuple[str, ...] = ascend.NOISE_TYPES
    level = "Level1"

    def __init__(self, identity: DeviceIdentity) -> None:
        self.identity = identity
        self.removed = [name for name in ascend.PROFILER_SWITCHES if os.environ.pop(name, None) is not None]
        os.umask(0o027)  # torch_npu refuses profiler folders that others may write
        _check(ascend.pair(package_version("torch"), package_version("torch_npu")), Status.DEVICE_UNAVAILABLE)
        _check(ascend.msprof(shutil.which("msprof")), Status.PROFILER_FAILED)
        if trouble := load_backend():
            raise _unavailable(identity, trouble)
        self._npu: Any = torch.get_device_module("npu")
        try:
            self.torch_device = torch.device("npu", visible.index_here(identity, self._npu.device_count()))
            self._npu.set_device(self.torch_device)
            torch.zeros(1, device=self.torch_device)
            self._npu.synchronize()
        except RuntimeError as error:
            raise _unavailable(identity, _first_line(error)) from error

    def info(self) -> DeviceInfo:
        """The chip, with its id on the machine where ASCEND_RT_VISIBLE_DEVICES renumbers it."""
        model = self._npu.get_device_name(self.torch_device.index) or self.identity.model
        return DeviceInfo("npu", self.identity.name, model, self.identity.physical_id, self.identity.stand_in)

    def warnings(self) -> list[str]:
        """Variables of the environment that would have switched the profiler off."""
        return [
            f"{name} was set; it switches torch_npu's profiler off and was removed for the run."
            for name in self.removed
        ]

    def synchronize(self) -> None:
        """Wait for every stream of the device."""
        self._npu.synchronize()

    def capture(self, iterate: Callable[[int], Region], iterations: int, folder: Path) -> Capture:
        """One warm-up step and `iterations` active ones at Level1 with PipeUtilization; nothing is analysed yet."""
        from torch_npu import profiler as npu_profiler

        target = own_folder(folder)
        handler = npu_profiler.tensorboard_trace_handler(str(target), analyse_flag=False)
        profiler = npu_profiler.profile(
            activities=[npu_profiler.ProfilerActivity.CPU, npu_profiler.ProfilerActivity.NPU],
            schedule=npu_profiler.schedule(wait=0, active=iterations, warmup=1, repeat=1, skip_first=0),
            on_trace_ready=handler,
            record_shapes=True,
            experimental_config=npu_profiler._ExperimentalConfig(
                profiler_level=npu_profiler.ProfilerLevel.Level1,
                aic_metrics=npu_profiler.AiCMetrics.PipeUtilization,
                export_type=[npu_profiler.ExportType.Text],
            ),
        )
        regions = self._run(profiler, iterate, iterations)
        return Capture(only_capture(target), regions)

    def _run(self, profiler: Any, iterate: Callable[[int], Region], iterations: int) -> list[Region]:
        profiler.start()
        try:
            iterate(-1)
            profiler.step()
            regions = []
            for k in range(iterations):
                regions.append(iterate(k))
                # Without it, kernels still queued would be counted in the next step.
                self.synchronize()
                profiler.step()
            return regions
        finally:
            profiler.stop()

    def finish(self, capture: Capture) -> Capture:
        """Analyse the capture here; `base.analysis` does it where no device is."""
        npu_analysis.analyse(capture.folder)
        return capture


@cache
def load_backend() -> str:
    """Import torch_npu, as torch's own autoload does; "" or why it cannot be.

    Autoload is switched off in this project's processes: an error in it takes `import torch` with it.
    """
    if "torch_npu" in sys.modules:
        return ""
    try:
        for entry in metadata.entry_points(group="torch.backends"):
            entry.load()()
        torch.device("npu")
    except Exception as error:  # an ImportError when CANN is missing, anything when versions do not fit
        return f"torch_npu {package_version('torch_npu')} cannot be loaded: {_first_line(error)}"
    return ""


def own_folder(folder: Path) -> Path:
    """The real path of `folder`, made if needed, that belongs to this user and that nobody else may write.

    torch_npu and CANN refuse any other, some versions without a word.
    """
    target = folder.resolve()
    target.mkdir(parents=True, exist_ok=True)
    owner = target.stat().st_uid
    if owner != os.getuid():
        raise CaseFailure(
            Status.PROFILER_FAILED,
            f"{target} belongs to user {owner}, and this process runs as {os.getuid()}: torch_npu and CANN do not "
            "write captures into another user's folder.",
            f"Remove the folder or take it over (`chown -R $(id -un) {target}`), and profile the case again.",
        )
    target.chmod(0o750)
    return target


def only_capture(target: Path) -> Path:
    """The one `*_ascend_pt` folder that the profiler has just made, with data of a device in it."""
    found = sorted(path for path in target.glob("*_ascend_pt") if path.is_dir())
    if len(found) != 1:
        raise _not_collected(
            f"The profiler was to leave one *_ascend_pt folder in {target}; there are {len(found)}"
            f"{': ' + ', '.join(path.name for path in found) if found else ''}."
        )
    if not any(found[0].glob("PROF_*/device_*")):
        here = ", ".join(sorted(path.name for path in found[0].iterdir())) or "nothing"
        raise _not_collected(f"The profiler collected nothing from the device: {found[0]} holds {here}.")
    return found[0]


def _not_collected(message: str) -> CaseFailure:
    return CaseFailure(
        Status.PROFILER_FAILED,
        message,
        "The profiler did not start or did not stop: check that the versions of torch_npu, CANN and the driver belong "
        "together, and that the disk is not full. The log has the profiler's own words.",
    )


def _check(finding: Finding, status: Status) -> None:
    if finding.level is Level.PROBLEM:
        raise CaseFailure(
            status, f"{finding.subject}: {finding.text}.", f"{finding.advice[:1].upper()}{finding.advice[1:]}."
        )


def _unavailable(identity: DeviceIdentity, why: str) -> CaseFailure:
    return CaseFailure(
        Status.DEVICE_UNAVAILABLE,
        f"{identity.name} cannot be used: {why}",
        "See whether `npu-smi info` lists the device, whether another process holds it, and whether the versions of "
        "driver, CANN, torch and torch_npu belong together.",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
