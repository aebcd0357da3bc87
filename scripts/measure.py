"""Measuring one golden on one device: what is called, in which order, between which synchronisations.

Per iteration: restore the inputs that the golden mutates → noise → synchronise → **golden** → synchronise. Everything
but the golden stays outside its region. Imports torch.
"""

from __future__ import annotations

import math
import os
import signal
import sysconfig
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.profiler import record_function

from scripts import call_work, tensors
from scripts.artifacts import Noise, Region, TensorInfo
from scripts.cases import Settings
from scripts.devices.base import GOLDEN_LABEL, NOISE_LABEL, Device
from scripts.errors import CaseFailure
from scripts.status import Status

MIB = 2**20
# Whose lines are not the golden's: this program, Python, installed packages.
NOT_THE_GOLDENS = (
    f"{Path(__file__).resolve().parent}{os.sep}",
    *(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
# With a warm cache a kernel must still mark where an iteration begins: a prime, so that no golden reduces this shape.
MARKER_SHAPE = (4099,)
FLOAT32_BYTES = 4
# The CPU's buffer repeats a block this long: drawing all of it would take longer than most cases.
CPU_BLOCK = 2**20


def noise_of(settings: Settings, device: Device) -> Noise:
    """The noise of a case: a flush of `noise_mib` MiB when the cache is to be cold, else a marker of a few KiB."""
    shape = (math.ceil(settings.noise_mib * MIB / FLOAT32_BYTES),) if settings.cache == "cold" else MARKER_SHAPE
    return Noise(shape[0] * FLOAT32_BYTES / MIB, shape, "float32", device.noise_types)


@lru_cache(maxsize=2)
def cpu_noise(elements: int) -> torch.Tensor:
    """The CPU's noise buffer, (elements,) float32; the warm parent fills it once and its children share the pages."""
    block = torch.randn(
        min(elements, CPU_BLOCK), dtype=torch.float32, device="cpu", generator=torch.Generator().manual_seed(0)
    )
    return block.repeat(math.ceil(elements / block.numel()))[:elements]


def noise_buffer(noise: Noise, device: Device) -> torch.Tensor:
    """The buffer that every iteration's noise kernel reduces, on the device."""
    try:
        if device.torch_device.type == "cpu":
            return cpu_noise(noise.shape[0])
        return torch.randn(noise.shape, dtype=torch.float32, device=device.torch_device)
    except (RuntimeError, MemoryError) as error:
        raise CaseFailure(
            Status.SKIPPED,
            f"The noise of noise_mib = {noise.mib:g} MiB does not fit into the memory of {device.info().name}: {error}",
            "Lower `noise_mib`: twice the size of the device's last-level cache is enough to flush it.",
        ) from error


@dataclass
class Measurement:
    """The golden with its arguments on the device, ready to be called again and again."""

    device: Device
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: list[str]
    buffer: torch.Tensor
    pristine: dict[str, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)  # name → (argument, its copy)
    outputs: list[TensorInfo] = field(default_factory=list)
    flops: int | None = None  # of one call; see scripts/call_work.py
    bytes_moved: int | None = None
    wall_ns: list[int] = field(default_factory=list)
    process: int = field(default_factory=os.getpid)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor argument by its name."""
        return {
            path: leaf
            for path, leaf in tensors.leaves(self.args, self.kwargs, self.names)
            if isinstance(leaf, torch.Tensor)
        }

    def check(self) -> None:
        """Call the golden once: see that it runs, what it returns, how much it moves and which inputs it mutates."""
        before = {name: (tensor, tensor.clone(), tensor._version) for name, tensor in self.tensors().items()}
        result = self.call("the first call")
        returned = {path: leaf for path, leaf in tensors.walk(result, "out") if isinstance(leaf, torch.Tensor)}
        self.outputs = [tensors.describe(path, leaf) for path, leaf in returned.items()]
        self.pristine = {
            name: (tensor, copy)
            for name, (tensor, copy, version) in before.items()
            if tensor._version != version or tensor.shape != copy.shape or not tensors.same_bytes(tensor, copy)
        }
        self._check_restorable()
        mutated = [tensor for tensor, _ in self.pristine.values()]
        self.bytes_moved = call_work.bytes_moved(self.tensors().values(), returned.values(), mutated)
        if not self.outputs and not self.pristine:
            raise CaseFailure(
                Status.GOLDEN_FAILED,
                f"{self.function.__name__} returned {type(result).__name__} and changed none of its inputs: "
                "there is nothing to measure.",
                "A golden returns a tensor (or a list, tuple or dict of tensors), or writes into its inputs.",
            )

    def _check_restorable(self) -> None:
        """An input that the golden gave another shape or dtype cannot be put back: every call would measure less."""
        for name, (tensor, copy) in self.pristine.items():
            if tensor.shape != copy.shape or tensor.dtype != copy.dtype:
                raise CaseFailure(
                    Status.GOLDEN_FAILED,
                    f"{self.function.__name__} made its input {name} of shape {tuple(copy.shape)} one of shape "
                    f"{tuple(tensor.shape)} ({tensor.dtype}): it cannot be restored for the next call.",
                    "A golden may write into its inputs, but not resize them or replace their data.",
                )

    def count_flops(self) -> None:
        """Call the golden once more, with its FLOPs counted; one that does not run under the counter has none.

        Not in the first call: a device that has refused one launch may drop the next ones in silence, so that a
        golden's own failure must be seen where it happens.
        """
        self.restore()
        try:
            _, self.flops = call_work.count_flops(lambda: self.call("the call whose FLOPs are counted"))
        except GoldenCrash:
            self.flops = None

    def warm_up(self, calls: int) -> None:
        """Call the golden `calls` times without measuring."""
        for k in range(calls):
            self.restore()
            self.call(f"warm-up call {k}")

    def restore(self) -> None:
        """Put the inputs that the golden mutates back to what they were."""
        for tensor, copy in self.pristine.values():
            tensor.copy_(copy)

    def iterate(self, k: int) -> Region:
        """One iteration: restore, noise, synchronise, golden, synchronise. Appends the golden's wall time."""
        self.restore()
        with record_function(f"{NOISE_LABEL}#{k}"):
            torch.max(self.buffer)
        self.device.synchronize()
        with record_function(f"{GOLDEN_LABEL}#{k}"):
            start_ns, start = time.time_ns(), time.perf_counter_ns()
            self.call(f"iteration {k}")
            wall = time.perf_counter_ns() - start
        self.wall_ns.append(wall)
        return Region(k, k + 1, start_ns, start_ns + wall)

    def host_wall_us(self, iterations: int) -> list[Decimal]:
        """Wall times of `iterations` unprofiled iterations, microseconds."""
        self.wall_ns.clear()
        for k in range(iterations):
            self.iterate(k)
        return self.taken_us()

    def taken_us(self) -> list[Decimal]:
        """The wall times since the last call, microseconds."""
        taken = [Decimal(ns) / 1000 for ns in self.wall_ns]
        self.wall_ns.clear()
        return taken

    def call(self, where: str) -> Any:
        """Call the golden and wait for its device. Whatever it raises, raises GoldenCrash, which says `where`.

        Where Ctrl-C raises KeyboardInterrupt, that is the user's and passes; in a case's own process it does not.
        """
        try:
            result = self.function(*self.args, **self.kwargs)
            self.device.synchronize()  # a launch that failed may only be told here
            return result
        except BaseException as error:  # `sys.exit()` too
            if isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                raise
            raise GoldenCrash(self.function.__name__, where, error) from error
        finally:
            if os.getpid() != self.process:  # the golden forked, and its child came back with it
                os._exit(0)


class GoldenCrash(Exception):
    """The golden raised; `error` is what it raised."""

    def __init__(self, function: str, where: str, error: BaseException) -> None:
        place = _place(error)
        super().__init__(f"{function} raised {type(error).__name__} in {where}{place and f' ({place})'}: {error}")
        self.error = error


def _place(error: BaseException) -> str:
    """`golden/x.py:6`, the innermost line of the golden or what lies beside it that `error` came through, or ""."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith(("<", *NOT_THE_GOLDENS)):
            found = f"{_shown(Path(file))}:{line}"
    return found


def _shown(file: Path) -> Path:
    try:
        return file.relative_to(Path.cwd())
    except (ValueError, OSError):  # the golden may have changed or removed the working directory
        return file


def prepare(
    device: Device,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: list[str],
    noise: Noise,
) -> Measurement:
    """Move the arguments to the device and allocate the noise."""
    moved = tensors.replace((args, kwargs), lambda tensor: tensor.to(device.torch_device))
    return Measurement(device, function, moved[0], moved[1], names, noise_buffer(noise, device))
