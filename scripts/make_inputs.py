"""Step 1: draw a case's inputs on the CPU, once, and say what was drawn.

Writes `inputs.pt` (the arguments of the call) and `inputs.json` beside it. The same case gives the same bytes on every
machine: mode A draws each tensor from a generator seeded by (seed, name), mode B seeds torch, numpy and random first.
"""

from __future__ import annotations

import inspect
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from scripts import artifacts, golden_file, memory, sources, tensors
from scripts import key as keys
from scripts.artifacts import InputsRecord
from scripts.cases import Argument, Case
from scripts.devices import identity
from scripts.errors import CaseFailure
from scripts.golden_file import Golden
from scripts.status import Status


def run(case: Case, key: str, case_dir: Path, roots: tuple[Path, ...], device: str = "") -> None:
    """Make `inputs.json` and `inputs.pt` of `case` in `case_dir`; `device` is what the key stands for, if not `auto`.

    Raises CaseFailure when the golden or its factory cannot be used or the inputs do not fit into memory.
    """
    case_dir = case_dir.resolve()  # a golden may change the working directory
    source = sources.open_source(case, roots)
    args, kwargs = source.arguments()
    names = source.parameters
    tensors.check_leaves(args, kwargs, names)
    case_dir.mkdir(parents=True, exist_ok=True)
    begun = threading.Event()

    def describe() -> InputsRecord:
        begun.set()
        return _record(case, key, args, kwargs, names)

    with ThreadPoolExecutor(1) as beside:  # hashing, once begun, leaves the interpreter to others
        described = beside.submit(describe)
        begun.wait()
        tensors.save(case_dir / "inputs.pt", args, kwargs)
        record = described.result()
    record.facts = source.facts
    record.code = keys.code(Path(case.golden), roots)
    record.device_facts = keys.facts(identity.resolve(device or case.settings.device))
    artifacts.write(case_dir / "inputs.json", record)


def call_arguments(case: Case, golden: Golden) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Draw the arguments of the case's call: (args, kwargs), all tensors on the CPU."""
    if case.mode == "A":
        return golden.bind({argument.name: _draw(argument, case.settings.seed) for argument in case.arguments})
    return _from_factory(case, golden)


def _draw(argument: Argument, seed: int) -> Any:
    if argument.is_value:
        return argument.value
    if argument.is_list:
        return [tensors.draw(spec, seed, f"{argument.name}[{i}]") for i, spec in enumerate(argument.tensors)]
    return tensors.draw(argument.tensors[0], seed, argument.name)


def _from_factory(case: Case, golden: Golden) -> tuple[tuple[Any, ...], dict[str, Any]]:
    seed_everything(case.settings.seed)
    factory = golden.factory
    try:
        takes_case = "case" in inspect.signature(factory).parameters
        with memory.Guard(case.id):
            made = factory("cpu", case=case.case) if takes_case else factory("cpu")
    except CaseFailure:
        raise
    except Exception as error:
        raise CaseFailure(
            Status.GOLDEN_FAILED,
            f"{golden_file.FACTORY} of {case.golden} raised {type(error).__name__} for case {case.case!r}: {error}",
            "Run the factory by hand; the whole traceback is in the log.",
        ) from error
    return _chosen(made, case)


def _chosen(made: Any, case: Case) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The (args, kwargs) of this case out of either form of a factory's result."""
    if _is_call(made):
        return tuple(made[0]), dict(made[1])
    if not isinstance(made, list | tuple) or not all(_is_named_call(item) for item in made):
        raise CaseFailure(
            Status.GOLDEN_FAILED,
            f"{golden_file.FACTORY} of {case.golden} returned {_outline(made)}.",
            "Allowed are (args, kwargs) for one case, or [(case, args, kwargs), …] for several; args is a list or "
            "tuple, kwargs a dict.",
        )
    matches = [item for item in made if item[0] == case.case]
    if len(matches) != 1:
        known = ", ".join(item[0] for item in made) or "none"
        found = "makes no such case" if not matches else f"makes it {len(matches)} times"
        raise CaseFailure(
            Status.GOLDEN_FAILED,
            f"The cases file names case {case.case!r}, but {golden_file.FACTORY} of {case.golden} {found}; "
            f"its cases: {known}.",
            "Make the names in the cases file and in the factory agree, each once.",
        )
    return tuple(matches[0][1]), dict(matches[0][2])


def _is_call(made: Any) -> bool:
    return (
        isinstance(made, list | tuple)
        and len(made) == 2
        and isinstance(made[0], list | tuple)
        and isinstance(made[1], dict)
    )


def _is_named_call(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 3 and isinstance(item[0], str) and _is_call(item[1:])


def _outline(made: Any) -> str:
    if isinstance(made, list | tuple):
        items = ", ".join(type(item).__name__ for item in made[:6])
        return f"a {type(made).__name__} of {len(made)}: ({items}{', …' if len(made) > 6 else ''})"
    return f"a {type(made).__name__}"


def seed_everything(seed: int) -> None:
    """Seed every generator that a factory or a golden may use."""
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed % 2**32)


def _record(case: Case, key: str, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]) -> InputsRecord:
    recipes = {
        f"{argument.name}[{i}]" if argument.is_list else argument.name: spec.init
        for argument in case.arguments
        for i, spec in enumerate(argument.tensors)
    }
    infos, scalars = [], {}
    for path, value in tensors.leaves(args, kwargs, names):
        if isinstance(value, torch.Tensor):
            infos.append(tensors.describe(path, value, hashed=True, init=recipes.get(path, "")))
        else:
            scalars[path] = value if isinstance(value, bool | int | float | str | None) else str(value)
    return InputsRecord(case, key, infos, scalars, sum(info.nbytes for info in infos))
