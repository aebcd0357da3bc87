"""A cann-bench operator as a golden: the function of `golden.py`, called with what a case of its tables describes.

Tensors are drawn from their value range, each by its own generator, as mode A does it; `get_input` of golden.py, where
there is one, may then rearrange them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from scripts import inits, make_inputs, memory, tensors
from scripts.cases import Case, TensorSpec
from scripts.dtypes import DTYPES, Dtype
from scripts.errors import CaseFailure, ConfigError
from scripts.golden_file import Golden
from scripts.sources import absent_npu, cann_tables, loading
from scripts.sources.cann_tables import CannCase, CannProto, CannTensor, Range
from scripts.status import Status

# Without a value range: the format's own defaults.
FLOAT_RANGE, INTEGER_RANGE = (0.0, 1.0), (0, 100)
SPECIAL_SHARE = 20  # one value in so many at either end is infinite where a range is


@dataclass
class CannBenchSource:
    """See `Source`."""

    case: Case
    golden: Golden
    proto: CannProto
    table: CannCase
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> list[str]:
        """Names of the golden's positional parameters."""
        return self.golden.parameters

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The case's tensors and attributes, by the golden's names."""
        memory.check(sum(tensor.nbytes for tensor in self.table.tensors if tensor), self.case.id)
        inputs = {declared.name: self._draw(tensor) for declared, tensor in self._pairs()}
        absent_npu.rebind(self.golden.module, torch.device("cpu"))
        prepare = getattr(self.golden.module, "get_input", None)
        if callable(prepare):
            return self.golden.bind(self._in_order(self._prepared(prepare, inputs)))
        return self.golden.bind(self._by_parameter(inputs))

    def function(self, device: torch.device) -> Callable[..., Any]:
        """The golden, with the devices that its file fixed at import replaced by `device`."""
        if changed := absent_npu.rebind(self.golden.module, device):
            self.facts["rebound"] = changed
        return self.golden.function

    def _pairs(self) -> list[tuple[cann_tables.CannInput, CannTensor | None]]:
        return list(zip(self.proto.inputs, self.table.tensors, strict=True))

    def _draw(self, tensor: CannTensor | None) -> Any:
        if tensor is None:
            return None
        seed = self.case.settings.seed
        drawn = [
            draw(shape, tensor.dtype, limits, seed, f"{tensor.name}[{i}]")
            for i, (shape, limits) in enumerate(zip(tensor.shapes, tensor.ranges, strict=True))
        ]
        return drawn if tensor.is_list else drawn[0]

    def _prepared(self, prepare: Callable[..., Any], inputs: dict[str, Any]) -> list[Any]:
        """What `get_input` makes of the inputs and attributes: values in the order of the golden's tensors."""
        make_inputs.seed_everything(self.case.settings.seed)
        parameters = inspect.signature(prepare).parameters
        kinds = {parameter.kind for parameter in parameters.values()}
        positional = list(inputs.values()) if inspect.Parameter.VAR_POSITIONAL in kinds else []
        given = dict(self.table.attributes) if positional else {**self.table.attributes, **inputs}
        if inspect.Parameter.VAR_KEYWORD not in kinds:
            given = {name: value for name, value in given.items() if name in parameters}
        try:
            made = prepare(*positional, **given)
        except Exception as error:
            raise loading.failure(Path(self.case.golden), "get_input() failed", error) from error
        self.facts["inputs"] = "drawn, then changed by get_input()"
        return list(made) if isinstance(made, list | tuple) else [made]

    def _by_parameter(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Inputs by the golden's parameters: by name where the names agree, the rest in order; then the attributes."""
        given = {name: value for name, value in inputs.items() if name not in self.table.attributes}
        free = [name for name in self._tensor_parameters() if name not in given]
        named = {name: value for name, value in given.items() if name in self._signature}
        rest = [name for name in given if name not in named]
        named.update(zip(free, (given[name] for name in rest), strict=False))
        return self._complete(named, [name for name in rest[len(free) :] if given[name] is not None])

    def _in_order(self, values: list[Any]) -> dict[str, Any]:
        """What get_input() made, in the order of the golden's tensors; then the attributes."""
        free = self._tensor_parameters()
        # Attributes may follow the tensors; they are taken from the table.
        left = [f"tensor {i}" for i, value in enumerate(values) if i >= len(free) and isinstance(value, torch.Tensor)]
        return self._complete(dict(zip(free, values, strict=False)), left)

    def _complete(self, named: dict[str, Any], left: list[str]) -> dict[str, Any]:
        """With the attributes that the golden takes; an input that is left out is left to the golden's own default."""
        if left:
            raise CaseFailure(
                Status.GOLDEN_FAILED,
                f"{self.golden.function.__name__} of {self.case.golden} has no parameter for {', '.join(left)} of "
                f"proto.yaml; it takes {', '.join(self._signature) or 'nothing'}.",
                "Make the inputs of proto.yaml and the parameters of the function agree.",
            )
        ignored = [name for name in self.table.attributes if name not in self._signature]
        if ignored:
            self.facts["attributes ignored"] = ", ".join(ignored)
        empty = inspect.Parameter.empty
        kept = {n: value for n, value in named.items() if value is not None or self._signature[n].default is empty}
        return {**kept, **{n: value for n, value in self.table.attributes.items() if n in self._signature}}

    @property
    def _signature(self) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(self.golden.function).parameters)

    def _tensor_parameters(self) -> list[str]:
        """The parameters that take inputs: those annotated as tensors, or else all that are no attributes."""
        found = [name for name in self._signature if name not in self.table.attributes]
        annotated = [name for name in found if "Tensor" in str(self._signature[name].annotation)]
        return annotated or [name for name in found if name not in self.proto.attributes]


def draw(shape: tuple[int, ...], dtype: str, limits: Range | None, seed: int, name: str) -> torch.Tensor:
    """One tensor with values from `limits`, both included; infinite limits put infinities at both ends."""
    recipe = _recipe(DTYPES[dtype], limits)
    try:
        drawn = tensors.draw(TensorSpec(shape, dtype, inits.spelling(recipe or "randn")), seed, name)
    except ConfigError as error:
        raise CaseFailure(Status.GOLDEN_FAILED, f"{name} cannot be drawn from {limits}: {error}") from error
    return drawn if recipe else _with_infinities(drawn)


def _recipe(dtype: Dtype, limits: Range | None) -> str:
    """The init recipe of a value range, "" where a limit is infinite; limits are cut to what the dtype holds."""
    if dtype.kind == "bool":
        lowest, highest = limits or (0, 0)
        return "bernoulli(0.5)" if lowest != highest else f"const({int(bool(lowest))})"
    low, high = limits or (INTEGER_RANGE if dtype.is_integer else FLOAT_RANGE)
    if math.isnan(low) or math.isnan(high):
        return "const(nan)"
    if math.isinf(low) or math.isinf(high):
        return ""
    low, high = max(low, dtype.low), min(high, dtype.high)
    if dtype.is_integer:
        return f"randint({int(low)},{int(high) + 1})"
    return f"uniform({low!r},{high!r})" if low < high else f"const({low!r})"


def _with_infinities(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.view(-1)
    count = max(1, flat.numel() // SPECIAL_SHARE)
    flat[:count], flat[-count:] = -math.inf, math.inf
    return tensor


def open_source(case: Case, roots: tuple[Path, ...]) -> CannBenchSource:
    """Load an operator and its case; see `scripts.sources.open_source`."""
    path = Path(case.golden)
    try:
        declared, table = cann_tables.proto(path.parent), cann_tables.case(path.parent, case.case)
    except ConfigError as error:
        raise CaseFailure(Status.GOLDEN_FAILED, str(error), "Correct the operator's tables.") from error
    if unknown := [tensor.dtype for tensor in table.tensors if tensor and tensor.dtype not in DTYPES]:
        raise CaseFailure(
            Status.SKIPPED,
            f"Case {case.case} of {path.parent} has inputs of {', '.join(unknown)}, which torch does not have.",
            "Nothing can be done about it here.",
        )
    module = loading.load(path, roots)
    function = _function(module, path, case.function, declared)
    facts = {"source": "cann_bench", **absent_npu.facts()}
    return CannBenchSource(case, Golden(path, module, function), declared, table, facts)


def _function(module: ModuleType, path: Path, wanted: str | None, declared: CannProto) -> Callable[..., Any]:
    """The function that the case or the schema names, or that is called like the operator or its folder."""
    for name in (wanted, declared.function, declared.name.lower(), path.parent.name):
        if name and callable(found := getattr(module, name, None)):
            return found
    there = [name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")]
    raise CaseFailure(
        Status.GOLDEN_FAILED,
        f"{path} has no function {wanted or declared.function or declared.name!r}, which proto.yaml's schema names.",
        f"Name one with `function` in the cases file. Functions there: {', '.join(there) or 'none'}.",
    )
