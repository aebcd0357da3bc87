"""Writing the folder and the CSV columns of the Ascend profiler from torch.profiler's own events.

`<host>_<pid>_<time>_ascend_pt/ASCEND_PROFILER_OUTPUT/{kernel_details,op_statistic,step_trace_time}.csv`,
`trace_view.json` beside them and `profiler_info.json`, with the names that Ascend's tools look for; columns that only
an NPU has are absent.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path

from scripts.devices import timeline
from scripts.devices.kernel_event import KernelEvent, OpStatistic

COLUMNS = (
    "Step Id",
    "Device_id",
    "Task ID",
    "Stream ID",
    "Name",
    "Type",
    "Accelerator Core",
    "Start Time(us)",
    "Duration(us)",
    "Wait Time(us)",
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
)
# torch.profiler's words for dtypes → the Ascend profiler's.
DATA_TYPES = {
    "float": "FLOAT",
    "double": "DOUBLE",
    "c10::Half": "FLOAT16",
    "c10::BFloat16": "DT_BF16",
    "signed char": "INT8",
    "short int": "INT16",
    "int": "INT32",
    "long int": "INT64",
    "unsigned char": "UINT8",
    "bool": "BOOL",
    "c10::complex<float>": "COMPLEX64",
    "c10::complex<double>": "COMPLEX128",
}


def new_folder(parent: Path) -> Path:
    """Make `<host>_<pid>_<time>_ascend_pt` under `parent`."""
    stamp = time.strftime("%Y%m%d%H%M%S", time.localtime()) + f"{time.time_ns() // 1_000_000 % 1000:03d}"
    folder = parent / f"{platform.node() or 'host'}_{os.getpid()}_{stamp}_ascend_pt"
    (folder / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
    return folder


def write(folder: Path, events: list[KernelEvent], statistics: Iterable[OpStatistic], info: dict) -> None:
    """Write the capture's files; profiler_info.json alone when there is no kernel."""
    (folder / "profiler_info.json").write_text(json.dumps(info, indent=4))
    output = folder / "ASCEND_PROFILER_OUTPUT"
    events = sorted(events, key=lambda event: event.start_ns)
    if events:
        _write_rows(output / "kernel_details.csv", COLUMNS, _kernel_rows(events))
        _write_statistics(output / "op_statistic.csv", statistics)
        _write_steps(output / "step_trace_time.csv", events)
        timeline.write(output / "trace_view.json", events)


def _kernel_rows(events: list[KernelEvent]) -> Iterable[list[object]]:
    previous_end = events[0].start_ns
    for task, event in enumerate(events):
        wait = max(event.start_ns - previous_end, 0)
        previous_end = event.start_ns + event.duration_ns
        # The Ascend profiler ends time stamps with a TAB so that spreadsheets keep every digit.
        yield [
            "" if event.step_id is None else event.step_id,
            event.device,
            task,
            event.stream,
            event.name,
            event.op_type,
            event.core,
            microseconds(event.start_ns) + "\t",
            microseconds(event.duration_ns),
            microseconds(wait),
            shapes_text(event.shapes),
            ";".join(DATA_TYPES.get(dtype, dtype or "UNDEFINED") for dtype in event.dtypes) or "N/A",
            ";".join("ND" for _ in event.dtypes) or "N/A",
        ]


def _write_statistics(path: Path, statistics: Iterable[OpStatistic]) -> None:
    rows = sorted(statistics, key=lambda row: -row.total_ns)
    total = sum(row.total_ns for row in rows) or 1
    header = ("OP Type", "Core Type", "Count", "Total Time(us)", "Avg Time(us)", "Ratio(%)")
    _write_rows(
        path,
        header,
        (
            [
                r.op_type,
                r.core,
                r.count,
                microseconds(r.total_ns),
                microseconds(r.total_ns // r.count),
                f"{100 * r.total_ns / total:.3f}",
            ]
            for r in rows
        ),
    )


def _write_steps(path: Path, events: list[KernelEvent]) -> None:
    rows = []
    for step in sorted({event.step_id for event in events if event.step_id is not None}):
        own = [event for event in events if event.step_id == step]
        start, end = own[0].start_ns, max(event.start_ns + event.duration_ns for event in own)
        computing = sum(event.duration_ns for event in own)
        rows.append(
            [
                0,
                step,
                microseconds(computing),
                "0",
                "0",
                "0",
                microseconds(max(end - start - computing, 0)),
                microseconds(end - start),
            ]
        )
    _write_rows(
        path,
        (
            "Device_id",
            "Step",
            "Computing",
            "Communication(Not Overlapped)",
            "Overlapped",
            "Communication",
            "Free",
            "Stage",
        ),
        rows,
    )


def _write_rows(path: Path, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def microseconds(ns: int) -> str:
    """Nanoseconds as microseconds with three decimals, every digit kept."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def shapes_text(shapes: tuple[tuple[int, ...], ...]) -> str:
    """Shapes as the Ascend profiler writes them, its own quotes included: `"2,3;4"`."""
    if not shapes:
        return "N/A"
    return '"' + ";".join(",".join(str(size) for size in shape) for shape in shapes) + '"'
