"""How Python itself is set in the Snakemake process: it keeps a large graph to its end, and its threads mostly wait."""

from __future__ import annotations

import atexit
import gc
import sys

SWITCH_S = 0.0001  # a job's thread needs its turn some ten times, and waits this long each, not 50 times as long


def before_the_graph() -> None:
    """Look for no garbage where everything is kept: neither while the graph is built, nor in it at the end."""
    gc.disable()
    atexit.register(gc.freeze)


def before_the_jobs() -> None:
    """Look for garbage again, but not in what is there; and let threads take turns quickly."""
    gc.freeze()
    gc.enable()
    sys.setswitchinterval(SWITCH_S)
