"""What is profiled: one frozen `Case` per target, resolved from cases.yaml."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scripts.dtypes import DTYPES


@dataclass(frozen=True)
class TensorSpec:
    """How mode A draws one tensor."""

    shape: tuple[int, ...]
    dtype: str  # torch's name without "torch."
    init: str  # a recipe of scripts/inits.py in its one spelling, "randn" by default

    @property
    def nbytes(self) -> int:
        """Size of the tensor in bytes."""
        return math.prod(self.shape) * DTYPES[self.dtype].nbytes


@dataclass(frozen=True)
class Argument:
    """One argument of a mode A call, passed by its name."""

    name: str
    tensors: tuple[TensorSpec, ...] = ()  # one, or several when `is_list`
    is_list: bool = False
    is_value: bool = False
    value: Any = None  # a JSON value when `is_value`


@dataclass(frozen=True)
class Settings:
    """How a case is measured; every default can be overridden per operator and per case."""

    device: str = "auto"  # "auto", "cpu", "cuda", "cuda:1", "npu", "npu:0"
    warmup: int = 3
    iterations: int = 10
    noise_mib: float = 480.0
    seed: int = 0
    timeout_s: float = 600.0
    cache: str = "cold"
    keep_inputs: bool = False


@dataclass(frozen=True)
class Case:
    """One (operator, case), with everything that decides its numbers except the machine."""

    operator: str
    case: str
    golden: str  # path of the golden file, relative to the project's root
    function: str | None  # None: found by the rule in scripts/golden_file.py
    mode: str  # "A": `arguments` are drawn; "B": the golden's `_make_inputs` makes them
    arguments: tuple[Argument, ...]
    settings: Settings
    family: str = ""
    tier: str = ""
    aliases: tuple[str, ...] = ()  # former ids
    source: str = "golden"  # the form of the file: "golden", "kernelbench" or "cann_bench" (scripts/sources)
    train: bool = False  # kernelbench: whether the model is in train mode
    constants: tuple[Argument, ...] = ()  # kernelbench: numbers at the problem's top level, set to other values

    @property
    def id(self) -> str:
        """`<operator>/<case>`."""
        return f"{self.operator}/{self.case}"

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors that mode A draws; 0 in mode B, where only the factory knows."""
        return sum(tensor.nbytes for argument in self.arguments for tensor in argument.tensors)
