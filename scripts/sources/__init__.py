"""Where a case's function and its arguments come from: one module per form of file, chosen by `source` in cases.yaml.

    golden        a `*_golden` function, its inputs from cases.yaml (mode A) or from `_make_inputs` (mode B)
    kernelbench   a KernelBench problem: class `Model`, `get_inputs()`, `get_init_inputs()`
    cann_bench    a cann-bench operator: `golden.py` beside `proto.yaml` and `cases.yaml` or `cases.csv`

Other people's files are taken as they are. Nothing is imported here, so that the DAG can be built without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from scripts.cases import Case

NAMES = ("golden", "kernelbench", "cann_bench")


class Source(Protocol):
    """One case's function, and the arguments that it is called with."""

    parameters: list[str]  # names of the positional parameters, [] when they are not known
    facts: dict[str, str]  # what a reader of the result must know of how the file was used

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(args, kwargs), drawn on the CPU from the case's seed; CaseFailure(SKIPPED) when they do not fit."""

    def function(self, device: torch.device) -> Callable[..., Any]:
        """What is measured; everything that it holds besides its arguments is on `device`."""


def open_source(case: Case, roots: tuple[Path, ...]) -> Source:
    """Load the file of `case`, with `roots` importable.

    Raises CaseFailure: SKIPPED when a package that it needs is not installed, GOLDEN_FAILED when it cannot be used.
    """
    return import_module(f"scripts.sources.{case.source}").open_source(case, roots)
