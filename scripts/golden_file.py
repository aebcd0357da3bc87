"""Loading a golden from its file: the function that is measured and, in mode B, its factory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from scripts import names
from scripts.errors import CaseFailure
from scripts.sources import loading
from scripts.status import Status

FACTORY = "_make_inputs"


@dataclass
class Golden:
    """A loaded golden file."""

    path: Path
    module: ModuleType
    function: Callable[..., Any]

    @property
    def parameters(self) -> list[str]:
        """Names of the positional parameters, [] when the signature is not known."""
        try:
            found = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):
            return []
        return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    @property
    def factory(self) -> Callable[..., Any]:
        """`_make_inputs`, or CaseFailure when the file has none."""
        found = getattr(self.module, FACTORY, None)
        if not callable(found):
            raise CaseFailure(
                Status.GOLDEN_FAILED,
                f"{self.path} has no function {FACTORY}(device), which mode B needs.",
                "Write one that returns (args, kwargs) or [(case, args, kwargs), …], or use mode A with `inputs`.",
            )
        return found

    def bind(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of a call by name; CaseFailure names what is missing or unknown."""
        signature = inspect.signature(self.function)
        by_name, positional = dict(arguments), []
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.POSITIONAL_ONLY and parameter.name in by_name:
                positional.append(by_name.pop(parameter.name))
        try:
            signature.bind(*positional, **by_name)
        except TypeError as error:
            raise CaseFailure(
                Status.GOLDEN_FAILED,
                f"{self.function.__name__}{signature} of {self.path} cannot be called with the case's arguments "
                f"({', '.join(arguments) or 'none'}): {error}.",
                "Name every required argument under `inputs`, `scalars` or `kwargs` of the case, and no other.",
            ) from error
        return tuple(positional), by_name


def load(path: Path, function: str | None, roots: tuple[Path, ...]) -> Golden:
    """Import `path` and find its golden, with `roots` and the file's own folder importable.

    Raises CaseFailure: SKIPPED when a package that it imports is not installed, GOLDEN_FAILED when it cannot be
    imported or does not hold the function.
    """
    module = loading.load(path, roots)
    return Golden(path, module, _function(path, module, function))


def _function(path: Path, module: ModuleType, wanted: str | None) -> Callable[..., Any]:
    own = {
        name: value for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")
    }
    goldens = [name for name in own if name.endswith("_golden") and own[name].__module__ == module.__name__]
    if wanted is not None:
        if callable(found := getattr(module, wanted, None)):
            return found
        raise CaseFailure(
            Status.GOLDEN_FAILED,
            f"{path} has no function {wanted!r}.{names.did_you_mean(wanted, list(own))}",
            f"Functions there: {', '.join(own) or 'none'}.",
        )
    if path.stem in own:
        return own[path.stem]
    if len(goldens) == 1:
        return own[goldens[0]]
    raise CaseFailure(
        Status.GOLDEN_FAILED,
        f"{path} holds {'several functions' if goldens else 'no function'} named *_golden"
        f"{': ' + ', '.join(goldens) if goldens else ''}.",
        f"Name one with `function:` in the cases file. Functions there: {', '.join(own) or 'none'}.",
    )
