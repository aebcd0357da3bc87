"""Captures that tests take with the stand-in, and what is in them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .stand_in import Ascend

HERE = Path(__file__).parent
# What example_capture.py launches in each step.
NOISE = ["ReduceMax"]
GOLDEN = ["MatMul", "SoftmaxV2", "Cast", "Add", "ArgMaxWithValue", "Cast"]
PER_STEP = len(NOISE) + len(GOLDEN)
STEPS = 3


@dataclass(frozen=True)
class Capture:
    """A `*_ascend_pt` folder, the log of the process that made it, and what that process printed."""

    folder: Path
    log: Path
    output: str = ""

    def path(self, name: str) -> Path:
        return self.folder / "ASCEND_PROFILER_OUTPUT" / name

    def table(self, name: str) -> list[dict[str, str]]:
        with self.path(name).open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def take(ascend: Ascend, folder: Path, *arguments: str, **options: Any) -> Capture:
    """Run example_capture.py with `arguments`, in `ascend.environment(**options)`, under `folder`."""
    log = folder / "log.jsonl"
    run = ascend.python(HERE / "example_capture.py", folder / "prof", *arguments, log=log, **options)
    assert run.returncode == 0, run.stdout + run.stderr
    (written,) = (folder / "prof").glob("*_ascend_pt")
    return Capture(written, log, run.stdout)


def analyse(ascend: Ascend, jobs: list[tuple[Path, dict[str, str]]]) -> str:
    """Analyse capture folders offline, each with its variables in the environment; what all of it printed."""
    text = json.dumps([(str(folder), variables) for folder, variables in jobs])
    run = ascend.python(HERE / "offline_analysis.py", text)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
