"""The timeline shows every kernel, and says when any of them computed."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.devices import timeline
from scripts.devices.kernel_event import KernelEvent

EPOCH_NS = 1_764_246_877_074_017_600


def kernel(start: int, duration: int, stream: int = 0, device: int = 0) -> KernelEvent:
    return KernelEvent(1, "a::b", "b", "CUDA", EPOCH_NS + start, duration, stream=stream, device=device)


def written(events: list[KernelEvent], folder: Path) -> list[dict]:
    timeline.write(folder / "trace_view.json", events)
    return json.loads((folder / "trace_view.json").read_text())


def test_computing_and_free_time_fill_the_span_without_counting_overlap_twice(tmp_path: Path) -> None:
    trace = written([kernel(0, 1000), kernel(500, 1500, stream=1), kernel(5000, 2000)], tmp_path)
    pieces = [(one["name"], one["dur"]) for one in trace if one["name"] in ("Computing", "Free")]
    assert pieces == [("Computing", 2.0), ("Free", 3.0), ("Computing", 2.0)]


def test_every_kernel_is_there_with_every_digit_of_its_start(tmp_path: Path) -> None:
    trace = written([kernel(1, 1000), kernel(2, 3, stream=7)], tmp_path)
    kernels = [one for one in trace if one["name"] == "a::b"]
    assert [(one["ts"], one["dur"], one["tid"]) for one in kernels] == [
        ("1764246877074017.601", 1.0, 0),
        ("1764246877074017.602", 0.003, 7),
    ]


def test_each_device_is_a_process_of_its_own(tmp_path: Path) -> None:
    trace = written([kernel(0, 1), kernel(1, 1, device=1)], tmp_path)
    assert len({one["pid"] for one in trace if one["name"] == "a::b"}) == 2
    assert [one["args"] for one in trace if one["name"] == "process_labels"][::2] == [
        {"labels": "CUDA 0"},
        {"labels": "CUDA 1"},
    ]
