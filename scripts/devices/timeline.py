"""trace_view.json of a capture that torch.profiler made: what a trace viewer shows and Ascend's tools add up.

A JSON array of trace events, as the Ascend profiler writes it: times in us, the start as text so that no digit is lost.
Kernels lie in one process per device and one thread per stream; the process "Overlap Analysis" says when any computed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scripts.devices.kernel_event import KernelEvent

KERNELS, OVERLAP = 0, 1  # processes of a device
COMPUTING, FREE = 1, 2  # threads of "Overlap Analysis"


def write(path: Path, events: Iterable[KernelEvent]) -> None:
    """Write the timeline of kernels that are in order of their start."""
    by_device: dict[int, list[KernelEvent]] = defaultdict(list)
    for event in events:
        by_device[event.device].append(event)
    trace = [one for device, own in sorted(by_device.items()) for one in _device(2 * device, own)]
    path.write_text(json.dumps(trace), encoding="utf-8")


def _device(pid: int, events: list[KernelEvent]) -> Iterator[dict[str, Any]]:
    core, device = events[0].core, events[0].device
    for process, name in ((KERNELS, f"{core} kernels"), (OVERLAP, "Overlap Analysis")):
        for what, text in (("name", name), ("labels", f"{core} {device}")):
            yield {"ph": "M", "name": f"process_{what}", "pid": pid + process, "tid": 0, "args": {what: text}}
    for event in events:
        args = {"Step Id": event.step_id, "Type": event.op_type, "Accelerator Core": event.core}
        end = event.start_ns + event.duration_ns
        yield _slice(event.name, pid + KERNELS, event.stream, event.start_ns, end) | {"args": args}
    previous = None
    for start, end in _busy(events):
        if previous is not None:
            yield _slice("Free", pid + OVERLAP, FREE, previous, start)
        yield _slice("Computing", pid + OVERLAP, COMPUTING, start, end)
        previous = end


def _busy(events: list[KernelEvent]) -> Iterator[tuple[int, int]]:
    """Intervals in which at least one kernel ran, ns."""
    start, end = events[0].start_ns, events[0].start_ns
    for event in events:
        if event.start_ns > end:
            yield start, end
            start = event.start_ns
        end = max(end, event.start_ns + event.duration_ns)
    yield start, end


def _slice(name: str, pid: int, tid: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    start = f"{start_ns // 1000}.{start_ns % 1000:03d}"
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": start, "dur": (end_ns - start_ns) / 1000}
