"""The layout of an Ascend capture's folder, and how the files in it that say something of it are opened."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

OUTPUT = "ASCEND_PROFILER_OUTPUT"
SUMMARIES = ("PROF_*/mindstudio_profiler_output", "mindstudio_profiler_output")  # msprof's own exports


def infos(capture: Path) -> Iterator[Any]:
    """profiler_info[_RANK].json, by name; one that is missing or damaged (the process died before) is passed over."""
    for path in sorted(capture.glob("profiler_info*.json")):
        try:
            yield json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue


def get(value: Any, *keys: str) -> Any:
    """The entry under `keys`, one below the other; None where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def open_readonly(database: Path) -> closing[sqlite3.Connection]:
    """A connection that makes and changes nothing, closed at the end of its `with`; any path is taken as it is."""
    return closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True))
