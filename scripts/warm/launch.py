"""How a process of this program's own is started: whatever the user's folder holds, our modules are found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def command(module: str, *arguments: str) -> list[str]:
    """To run `module`. A `scripts` folder or a statistics.py where the user works is not in its way."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """This process's, in which our modules are found before others of their names."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
