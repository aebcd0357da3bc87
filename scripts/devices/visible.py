"""Making a device the only one that a process sees. Before its runtime is initialised, or it has no effect."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from scripts.devices.identity import VISIBLE, DeviceIdentity, usable_cores


def show_only(device: DeviceIdentity) -> None:
    """Hide every device but `device` from this process: other NPUs or GPUs, or other cores for a part of the CPU."""
    if device.cores:
        if os.sched_getaffinity(0) == usable_cores():
            os.sched_setaffinity(0, device.cores)  # threads that are started later inherit it, earlier ones do not move
    elif device.kind in VISIBLE:
        os.environ[VISIBLE[device.kind]] = device.physical_id or str(device.index)


def index_here(device: DeviceIdentity, count: int) -> int:
    """The number under which a process whose runtime shows `count` devices finds `device`: alone, it is the first.

    A runtime that was initialised before the others were hidden shows them all, by their old numbers.
    """
    return 0 if count == 1 else device.index


def keep_on(cores: Collection[int]) -> None:
    """Keep this process, with all its threads, on `cores` from now on."""
    if os.sched_getaffinity(0) != cores:
        for thread in os.listdir("/proc/self/task"):
            with suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(thread), cores)


@contextmanager
def on_cores(cores: Iterable[int]) -> Iterator[None]:
    """Keep the calling thread on `cores`, and put it back afterwards."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
