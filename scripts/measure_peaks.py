"""What a device can do at most: a matrix product and a copy per dtype, and a copy with and without a flushed cache.

They are measured like any golden: the profiler's kernel durations between the same synchronisations. Imports torch.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from scripts import artifacts, handout, measure, peaks, session, speedup
from scripts.artifacts import Spread
from scripts.cases import Settings
from scripts.devices import opening
from scripts.devices.base import Device
from scripts.errors import CaseFailure
from scripts.peaks import CacheCheck, Peak, PeaksRecord
from scripts.session import Contestant
from scripts.statistics import spread
from scripts.status import Status

MOST_ITERATIONS, FEWEST_ITERATIONS = 25, 5  # the fastest of them counts
WAIT_S = 0.5  # for all iterations of one product
COPY_ITERATIONS = 6
CACHE_ITERATIONS = 20
# A product may take this long: large enough to reach the peak, small enough not to be waited for.
LONGEST_S = 0.06
SMALLEST, LARGEST = 256, 16384
COPY_MIB = 160  # read, and as much written: together far more than any cache holds
FITS_CACHE_MIB = {"cpu": 0.5}  # read, and as much written; within the level-2 cache of one core
FITS_CACHE_MIB_ELSEWHERE = 8.0


def run(
    setting: str, target: Path, phase: handout.Phase, among: Sequence[str] = (), unchecked: Collection[str] = ()
) -> PeaksRecord:
    """Measure a device (see `handout.device_for`) and write `target`. What cannot be measured is said in the record.

    Raises CaseFailure(DEVICE_UNAVAILABLE) when the device is not there.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with handout.device_for(setting, among, phase, unchecked) as found, _scratch(target.parent) as folder:
        device = opening.open_device(found)
        phase("running")
        record = PeaksRecord(
            device=device.info(),
            versions=found.versions,
            measured_at=datetime.now().astimezone().isoformat(),
            peaks=[_peak(device, dtype, folder / dtype) for dtype in peaks.DTYPES],
            cache=_cache_check(device, folder / "cache"),
            load_1min=f"{os.getloadavg()[0]:.2f}",
        )
    artifacts.write(target, record)
    return record


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    for left in parent.glob(".captures-*"):  # by a process that was killed; this one holds the device
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".captures-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _peak(device: Device, dtype: str, folder: Path) -> Peak:
    peak = Peak(dtype, 0, None, 2 * COPY_MIB * measure.MIB, None)
    problems = []
    try:
        peak.matmul_size, product, seconds = _largest_matmul(device, dtype)
        iterations = min(max(int(WAIT_S / seconds), FEWEST_ITERATIONS), MOST_ITERATIONS)
        peak.matmul = _spread(device, product, iterations, folder / "matmul")
    except (RuntimeError, CaseFailure) as error:  # a dtype that the device has no product for
        problems.append(f"matmul: {_first_line(error)}")
    try:
        elements = COPY_MIB * measure.MIB // getattr(torch, dtype).itemsize
        peak.copy = _spread(device, _copy(device, dtype, elements), COPY_ITERATIONS, folder / "copy")
    except (RuntimeError, CaseFailure) as error:
        problems.append(f"copy: {_first_line(error)}")
    peak.problem = "; ".join(problems)
    return peak


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _largest_matmul(device: Device, dtype: str) -> tuple[int, Callable[[], torch.Tensor], float]:
    """The largest product (its size is a power of two) that takes LONGEST_S at most, and the seconds it takes."""
    size = SMALLEST
    while True:
        product = _matmul(device, dtype, size)
        seconds = _fastest_s(device, product)
        if size == LARGEST or 8 * seconds > LONGEST_S:  # the next one is eight times the work
            return size, product, seconds
        size *= 2


def _fastest_s(device: Device, product: Callable[[], Any]) -> float:
    """Of four calls the fastest: the first builds what later ones reuse."""
    walls = []
    for _ in range(4):
        started = time.perf_counter()
        product()
        device.synchronize()
        walls.append(time.perf_counter() - started)
    return min(walls)


def _matmul(device: Device, dtype: str, size: int) -> Callable[[], torch.Tensor]:
    """A product into memory that is there: allocating would be timed with it."""
    generator = torch.Generator().manual_seed(0)
    row = torch.randn(size, generator=generator).to(device.torch_device, getattr(torch, dtype))
    a = torch.stack([row.roll(k) for k in range(size)])  # random values without drawing size² of them on the CPU
    out = torch.empty_like(a)

    def matmul() -> torch.Tensor:
        return torch.mm(a, a, out=out)

    return matmul


def _copy(device: Device, dtype: str, elements: int) -> Callable[[], torch.Tensor]:
    source = torch.ones(elements, dtype=getattr(torch, dtype), device=device.torch_device)
    target = torch.zeros_like(source)

    def copy() -> torch.Tensor:
        return target.copy_(source)

    return copy


def _spread(device: Device, function: Callable[[], Any], iterations: int, folder: Path) -> Spread:
    times = session.device_times(device, [_contestant(device, "peak", function, "warm")], iterations, folder)[0]
    if times.problem:
        raise CaseFailure(Status.NO_KERNELS, times.problem)
    return spread(times.samples_us)


def _contestant(device: Device, name: str, function: Callable[[], Any], cache: str) -> Contestant:
    noise = measure.noise_of(Settings(cache=cache), device)
    measurement = measure.prepare(device, function, (), {}, [], noise)
    with torch.no_grad():
        measurement.check()
        measurement.warm_up(2)
    return Contestant(name, measurement, noise)


def _cache_check(device: Device, folder: Path) -> CacheCheck:
    """Cold must be slower than warm for a copy that fits the cache, or the flush does nothing."""
    mib = FITS_CACHE_MIB.get(device.torch_device.type, FITS_CACHE_MIB_ELSEWHERE)
    check = CacheCheck(int(2 * mib * measure.MIB), Settings().noise_mib, None, None, None, "")
    try:
        copy = _copy(device, "float32", int(mib * measure.MIB) // 4)
        contestants = [_contestant(device, cache, copy, cache) for cache in ("cold", "warm")]
        cold, warm = session.device_times(device, contestants, CACHE_ITERATIONS, folder)
    except (RuntimeError, CaseFailure) as error:
        check.reason = _first_line(error)
        return check
    if cold.problem or warm.problem:
        check.reason = cold.problem or warm.problem
        return check
    check.cold, check.warm = spread(cold.samples_us), spread(warm.samples_us)
    compared = speedup.judge(cold.samples_us, warm.samples_us, paired=True)
    undecided = compared.verdict is speedup.Verdict.UNDECIDED
    check.flushes = None if undecided else compared.verdict is speedup.Verdict.FASTER
    check.reason = f"warm against cold is {compared.verdict}: {compared.reason}"
    return check
