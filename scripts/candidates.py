"""Other callables for a golden's inputs: where they come from, and whether they return what the golden returns.

Imports torch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from scripts import names, tensors
from scripts.errors import CaseFailure, ConfigError
from scripts.sources import loading

COMPILED = "torch.compile"


@dataclass(frozen=True)
class Tolerance:
    """How far a candidate's values may be from the golden's; None: torch.testing's default of the dtype.

    The defaults (rtol, atol): float16 1e-3, 1e-5; bfloat16 1.6e-2, 1e-5; float32 1.3e-6, 1e-5; float64 1e-7, 1e-7;
    integers, booleans and 8-bit floats must be equal.
    """

    rtol: float | None = None
    atol: float | None = None

    def __str__(self) -> str:
        if self.rtol is None:
            return "torch.testing's defaults for the dtype"
        return f"rtol {self.rtol:g}, atol {self.atol:g}"


def load(spec: str, golden: Callable[..., Any]) -> Callable[..., Any]:
    """The callable that `spec` names: `module:function`, `path/file.py:function`, or `torch.compile`.

    Raises ConfigError when it cannot be found.
    """
    if spec == COMPILED:
        return torch.compile(golden)
    place, _, function = spec.rpartition(":")
    if not place or not function:
        raise ConfigError(
            f"{spec!r} is no candidate. Allowed are module:function, path/file.py:function and {COMPILED}."
        )
    module = _module(spec, place)
    found = getattr(module, function, None)
    if not callable(found):
        own = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        hint = names.did_you_mean(function, own) or " Write one of its functions."
        raise ConfigError(f"{place} has no function {function!r}, which the candidate {spec!r} names.{hint}")
    return found


def _module(spec: str, place: str) -> Any:
    try:
        if place.endswith(".py"):
            path = Path(place)
            if not path.is_file():
                siblings = [str(sibling) for sibling in path.parent.glob("*.py")]
                hint = names.did_you_mean(str(path), siblings) or " Write the file or correct the path."
                raise ConfigError(f"There is no file {place}, which the candidate {spec!r} names.{hint}")
            return loading.load(path, (Path.cwd(),))
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))
        return importlib.import_module(place)
    except (ConfigError, CaseFailure):
        raise
    except Exception as error:  # whatever the module does when it is imported
        raise ConfigError(f"The candidate {spec!r} cannot be imported: {type(error).__name__}: {error}") from error


def snapshot(result: Any) -> dict[str, Any]:
    """The leaves of a result by path, tensors copied."""
    return {
        path: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
        for path, leaf in tensors.walk(result, "out")
    }


def difference(expected: dict[str, Any], actual: dict[str, Any], tolerance: Tolerance) -> str:
    """Why `actual` is not what the golden returned, one sentence; "" when it is."""
    if expected.keys() != actual.keys():
        missing, extra = sorted(expected.keys() - actual.keys()), sorted(actual.keys() - expected.keys())
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has {', '.join(extra)} more"] if extra else []
        return f"the result {' and '.join(parts)}"
    for path, value in expected.items():
        problem = _leaf_difference(value, actual[path], tolerance)
        if problem:
            return f"{path}: {problem}"
    return ""


def _leaf_difference(expected: Any, actual: Any, tolerance: Tolerance) -> str:
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        same = type(expected) is type(actual) and expected == actual
        return "" if same else f"{actual!r} instead of {expected!r}"
    if expected.dtype == actual.dtype and expected.dtype.is_floating_point and expected.dtype.itemsize == 1:
        expected, actual = expected.float(), actual.float()  # few operators exist for 8-bit floats
        tolerance = Tolerance(tolerance.rtol or 0.0, tolerance.atol or 0.0)
    try:
        torch.testing.assert_close(
            actual, expected, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""
