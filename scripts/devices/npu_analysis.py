"""Analysing an NPU's capture: torch_npu runs msprof over it. Needs no device, so it is done after the device is free.

Success is a kernel_details.csv with rows. The console, the exit code and `analyse.done` say "done" after failures too.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

ATTEMPTS = 2  # msprof can end before torch_npu has looked for its files; the same capture then passes the second time


def analyse(folder: Path) -> None:
    """Make the tables of the `*_ascend_pt` folder, with one more attempt where the first one gave no kernels.

    What is missing after that is for `locate_output` to name. With one process, since torch_npu's default of half the
    cores is none on a machine with one core.
    """
    from torch_npu.profiler.profiler import analyse as analyse_offline

    os.umask(0o027)  # torch_npu refuses folders that others may write
    for attempt in range(ATTEMPTS):
        started = time.monotonic()
        analyse_offline(str(folder), max_process_number=1)
        found = has_rows(folder)
        result = "kernels found" if found else "no kernels found"
        print(f"analysis {attempt + 1}: {time.monotonic() - started:.1f} s, {result}", flush=True)
        if found:
            return


def has_rows(folder: Path) -> bool:
    """Whether the folder holds a kernel_details.csv with at least one row."""
    file = folder / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv"
    try:
        with file.open("rb") as lines:
            return bool(lines.readline().strip()) and bool(lines.readline().strip())
    except OSError:
        return False
