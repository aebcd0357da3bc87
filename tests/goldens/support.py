"""Helpers for the golden tests: the operators of cases.yaml, their inputs, and checks that hold for all of them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import yaml

ROOT = Path(__file__).resolve().parents[2]
OPERATORS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "config/cases.yaml").read_text())["operators"]


def load(operator: str) -> tuple[ModuleType, Callable[..., Any]]:
    """The golden's module and function."""
    path = ROOT / OPERATORS[operator]["golden"]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, getattr(module, operator)


def inputs_of(operator: str, case: str, seed: int = 0) -> tuple[tuple, dict[str, Any]]:
    """(args, kwargs) of a case of cases.yaml on the CPU."""
    torch.manual_seed(seed)
    entry = OPERATORS[operator]
    if entry["mode"] == "B":
        return load(operator)[0]._make_inputs(torch.device("cpu"), case)
    body = entry["cases"][case]
    drawn = {name: _drawn(spec) for name, spec in body["inputs"].items()}
    return (), {**drawn, **body.get("scalars", {})}


def _drawn(spec: dict[str, Any] | list[dict[str, Any]]) -> torch.Tensor | list[torch.Tensor]:
    if isinstance(spec, list):
        return [_drawn(one) for one in spec]
    shape, dtype = spec["shape"], getattr(torch, spec["dtype"])
    return values(spec["init"], shape).to(dtype)


def values(init: str, shape: list[int]) -> torch.Tensor:
    """float32 or int64 values of a recipe of cases.yaml; a second, plain reading of those recipes."""
    word, *numbers = re.findall(r"[a-z_]+|-?\d[\d.e+-]*", init)
    numbers = [float(number) for number in numbers]
    if word in ("rope_cos", "rope_sin"):
        half = torch.arange(shape[-1]) % (shape[-1] // 2)
        angle = torch.arange(shape[-2])[:, None] * 10000.0 ** (-2.0 * half / shape[-1])
        return (angle.cos() if word == "rope_cos" else angle.sin()).expand(shape)
    count = torch.Size(shape).numel()
    return {
        "randn": lambda: torch.randn(shape) * (numbers[0] if numbers else 1.0),
        "uniform": lambda: torch.rand(shape) * (numbers[1] - numbers[0]) + numbers[0],
        "randint": lambda: torch.randint(int(numbers[0]), int(numbers[1]), shape),
        "zeros": lambda: torch.zeros(shape),
        "ones": lambda: torch.ones(shape),
        "const": lambda: torch.full(shape, numbers[0]),
        "arange": lambda: torch.arange(count).reshape(shape),
        "perm": lambda: torch.randperm(count).reshape(shape),
        "bernoulli": lambda: torch.rand(shape) < numbers[0],
    }[word]()


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors(tuple(value.values()))
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors(one)


def finite(tensor: torch.Tensor) -> bool:
    """No NaN and no infinity; integers and booleans are always finite."""
    return bool(torch.isfinite(tensor.float()).all()) if tensor.is_floating_point() else True


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    """Equal shape, and equal values within an absolute and relative tolerance, compared in float64."""
    assert actual.shape == expected.shape
    torch.testing.assert_close(actual.double(), expected.double(), atol=tolerance, rtol=tolerance)
