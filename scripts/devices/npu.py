"""An Ascend NPU as a device: torch_npu.profiler collects, and the analysis runs after the device was given free."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from scripts.artifacts import DeviceInfo, Region
from scripts.devices.base import Capture
from scripts.devices.identity import DeviceIdentity
from scripts.errors import CaseFailure
from scripts.status import Status

# With either of these set the profiler is silently off.
FORBIDDEN_VARIABLES = ("PROFILING_MODE", "PROFILER_SAMPLECONFIG")
ANALYSE_TIMEOUT_S = 1800
ANALYSE = "import sys; from torch_npu.profiler.profiler import analyse; analyse(sys.argv[1], max_process_number=1)"


class NpuDevice:
    """Profiles with torch_npu.profiler; see `Device` for the protocol."""

    # The same reduction goes by its graph name or by its level-0 function's, depending on the CANN version.
    noise_types: tuple[str, ...] = ("ReduceMax", "ReduceMaxAiCore", "ReduceMaxD")
    level = "Level1"

    def __init__(self, identity: DeviceIdentity) -> None:
        self.identity = identity
        self.removed = [name for name in FORBIDDEN_VARIABLES if os.environ.pop(name, None) is not None]
        os.umask(0o027)  # torch_npu refuses profiler folders that others may write
        self.torch_device = torch.device("npu", identity.index)
        try:
            import torch_npu

            self._npu: Any = torch_npu.npu
            self._npu.set_device(self.torch_device)
            torch.zeros(1, device=self.torch_device)
        except (ImportError, RuntimeError) as error:
            raise CaseFailure(
                Status.DEVICE_UNAVAILABLE,
                f"{identity.name} cannot be used: {_first_line(error)}",
                "See whether `npu-smi info` lists the device, whether another process holds it, and whether the "
                "versions of driver, CANN, torch and torch_npu belong together.",
            ) from error

    def info(self) -> DeviceInfo:
        """The chip, with its id on the machine where ASCEND_RT_VISIBLE_DEVICES renumbers it."""
        visible = os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "")
        ids = [part.strip() for part in visible.split(",") if part.strip()]
        physical = ids[self.identity.index] if self.identity.index < len(ids) else str(self.identity.index)
        model = self._npu.get_device_name(self.identity.index) or self.identity.model
        return DeviceInfo("npu", self.identity.name, model, physical, self.identity.stand_in)

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

        target = folder.resolve()
        target.mkdir(parents=True, exist_ok=True)
        target.chmod(0o750)
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
        return Capture(_only_capture(target), regions)

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
        """Analyse the capture in a process of its own, verify that kernels came of it, and try once more if not.

        The console and the exit code prove nothing: only a kernel_details.csv with rows does.
        """
        output = ""
        for _attempt in range(2):
            output = _analyse(capture.folder)
            if has_rows(capture.folder):
                break
        print(output, flush=True)
        return capture


def _only_capture(target: Path) -> Path:
    """The one `*_ascend_pt` folder that the profiler has just made."""
    found = sorted(path for path in target.glob("*_ascend_pt") if path.is_dir())
    if len(found) != 1:
        raise CaseFailure(
            Status.PROFILER_FAILED,
            f"The profiler was to leave one *_ascend_pt folder in {target}; there are {len(found)}"
            f"{': ' + ', '.join(path.name for path in found) if found else ''}.",
            "The profiler did not start or did not stop: check the versions of torch_npu and CANN, that the folder is "
            "writable by its owner alone, and that the disk is not full. The log has the profiler's own words.",
        )
    return found[0]


def _analyse(folder: Path) -> str:
    command = [sys.executable, "-c", ANALYSE, str(folder)]
    started = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANALYSE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise CaseFailure(
            Status.TIMEOUT,
            f"The analysis of {folder.name} did not end within {ANALYSE_TIMEOUT_S} s.",
            f"Run it by hand to see where it stands: {' '.join(command[:1])} -c '{ANALYSE}' {folder}",
        ) from None
    return f"analysis: {time.monotonic() - started:.1f} s, exit code {done.returncode}\n{done.stdout}{done.stderr}"


def has_rows(folder: Path) -> bool:
    """Whether the folder holds a kernel_details.csv with at least one row."""
    file = folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    try:
        with file.open("rb") as lines:
            return bool(lines.readline().strip()) and bool(lines.readline().strip())
    except OSError:
        return False


def profiler_level(folder: Path) -> str:
    """The level that a capture says it was made with, "" when it does not say."""
    for file in sorted(folder.glob("profiler_info*.json")):
        try:
            return json.loads(file.read_text())["config"]["experimental_config"]["_profiler_level"]
        except (ValueError, KeyError, OSError):
            continue
    return ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
