"""A KernelBench problem as a golden: `Model(*get_init_inputs())` called with `get_inputs()`.

Dtypes stay as the problem makes them, integers and bool too. The model is made on the CPU from the case's seed and
moved to the device before anything is measured. Its sizes are found on the meta device before anything is allocated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from scripts import make_inputs, memory, names, tensors
from scripts.cases import Case
from scripts.errors import CaseFailure
from scripts.sources import absent_npu, loading
from scripts.status import Status

# Below, the outputs are not asked for: calling a model on the meta device loads torch's compiler, 5 s in every process.
SMALL_BYTES = 64 * 2**20
PARTS = ("Model", "get_inputs", "get_init_inputs")


@dataclass
class KernelBenchSource:
    """See `Source`."""

    case: Case
    module: ModuleType
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The problem's file."""
        return Path(self.case.golden)

    @property
    def parameters(self) -> list[str]:
        """Names of the positional parameters of `Model.forward`."""
        found = list(inspect.signature(self.module.Model.forward).parameters.values())[1:]
        return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What `get_inputs()` returns after seeding; a dict is passed by name."""
        nbytes = self.nbytes()
        if nbytes is not None:
            memory.check(nbytes, f"{self.case.id}, with parameters and outputs,")
        return self._inputs()

    def function(self, device: torch.device) -> Callable[..., Any]:
        """The model on `device`, in train or eval mode as the case says."""
        try:
            model = self._model().to(device).train(self.case.train)
        except Exception as error:
            raise loading.failure(self.path, "cannot make its Model", error) from error
        held = list(model.parameters()) + list(model.buffers())
        self.facts["model"] = f"{'train' if self.case.train else 'eval'} mode"
        self.facts["weights"] = (
            f"{len(held)} tensors, {_nbytes(held) / 2**20:.1f} MiB, made on the CPU from seed {self.case.settings.seed}"
        )

        def problem(*args: Any, **kwargs: Any) -> Any:
            return model(*args, **kwargs)

        problem.__name__ = self.path.stem
        return problem

    def nbytes(self) -> int | None:
        """Bytes of inputs, parameters and buffers, and of outputs where these are many; None where that fails.

        All is found on the meta device.
        """
        try:
            with torch.device("meta"), torch.no_grad():
                model = self._model()
                args, kwargs = self._inputs()
                held = [*model.parameters(), *model.buffers(), *_tensors((args, kwargs))]
        except Exception as error:
            if loading.missing_package(error, self.path):
                raise loading.failure(self.path, "cannot be built", error) from error
            self.facts["size"] = f"not known in advance ({type(error).__name__} on the meta device)"
            return None
        if _nbytes(held) < SMALL_BYTES:
            return _nbytes(held)
        try:
            with torch.device("meta"), torch.no_grad():
                held += _tensors(model(*args, **kwargs))
        except Exception:  # an operator without a meta kernel, a tensor on a fixed device: the outputs stay uncounted
            self.facts["size"] = "outputs not counted in advance"
        return _nbytes(held)

    def _inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        make_inputs.seed_everything(self.case.settings.seed)
        try:
            made = self.module.get_inputs()
        except Exception as error:
            raise loading.failure(self.path, "get_inputs() failed", error) from error
        if isinstance(made, dict):
            return (), made
        if not isinstance(made, list | tuple):
            raise CaseFailure(
                Status.GOLDEN_FAILED,
                f"get_inputs() of {self.path} returned a {type(made).__name__}.",
                "It must return a list of what Model.forward takes, or a dict by name.",
            )
        return tuple(made), {}

    def _model(self) -> torch.nn.Module:
        """A new model; constructor arguments and weights are each drawn after seeding."""
        make_inputs.seed_everything(self.case.settings.seed)
        made = self.module.get_init_inputs()
        make_inputs.seed_everything(self.case.settings.seed)
        return self.module.Model(**made) if isinstance(made, dict) else self.module.Model(*made)


def open_source(case: Case, roots: tuple[Path, ...]) -> KernelBenchSource:
    """Load a problem and set the constants that the case overrides; see `scripts.sources.open_source`."""
    path = Path(case.golden)
    module = loading.load(path, roots)
    lacking = [name for name in PARTS if not callable(getattr(module, name, None))]
    if lacking:
        raise CaseFailure(
            Status.GOLDEN_FAILED,
            f"{path} is no KernelBench problem: it has no {', no '.join(lacking)}.",
            f"A problem has {', '.join(PARTS)}. For a *_golden function leave `source` out.",
        )
    facts = {"source": "kernelbench", **absent_npu.facts()}
    for constant in case.constants:
        _set(module, path, constant.name, constant.value)
        facts[f"constant {constant.name}"] = str(constant.value)
    return KernelBenchSource(case, module, facts)


def _set(module: ModuleType, path: Path, name: str, value: Any) -> None:
    """Override a number at the problem's top level; one that is not there would change nothing."""
    there = [key for key, old in vars(module).items() if isinstance(old, int | float | list | tuple) and key[0] != "_"]
    if name not in there:
        raise CaseFailure(
            Status.GOLDEN_FAILED,
            f"{path} has no constant {name} at its top level.{names.did_you_mean(name, there)}",
            f"Constants there: {', '.join(there) or 'none'}. Correct `constants` of the case.",
        )
    setattr(module, name, value)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for _, leaf in tensors.walk(value, "") if isinstance(leaf, torch.Tensor)]


def _nbytes(held: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in held)
