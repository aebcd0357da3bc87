"""How Python is set in the Snakemake process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_graph_is_searched_for_no_garbage_while_it_is_built_nor_at_the_end_and_what_comes_after_it_is() -> None:
    code = """
import atexit, gc, sys
from scripts import interpreter
atexit.register(lambda: print(gc.get_freeze_count() > 0))
interpreter.before_the_graph()
print(gc.isenabled())
interpreter.before_the_jobs()
print(gc.isenabled(), gc.get_freeze_count() > 0, sys.getswitchinterval() < 0.001)
gc.unfreeze()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True", "True"]
