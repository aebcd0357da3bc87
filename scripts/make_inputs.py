"""Step 1: draw a case's inputs on the CPU, once, and say what was drawn.

Writes `inputs.pt` (the arguments of the call) and `inputs.json` beside it. The same case gives the same bytes on every
machine: mode A draws each tensor from a generator seeded by (seed, name), mode B seeds torch, numpy and random first.
"""

from __future__ import annotations

import inspect
import os
import random
from pathlib import Path
from typing import Any

import torch

from scripts import artifacts, golden_file, sources, tensors
from scripts import key as keys
from scripts.artifacts import InputsRecord
from scripts.cases import Argument, Case
from scripts.devices import identity
from scripts.errors import CaseFailure
from scripts.golden_file import Golden
from scripts.status import Status

# Inputs, their copy on the device and what the golden makes of them must fit beside each other.
MEMORY_SHARE = 0.4


def run(case: Case, key: str, case_dir: Path, roots: tuple[Path, ...]) -> None:
    """Make `inputs.json` and `inputs.pt` of `case` in `case_dir`.

    Raises CaseFailure when the golden or its factory cannot be used or the inputs do not fit into memory.
    """
    case_dir = case_dir.resolve()  # a golden may change the working directory
    source = sources.open_source(case, roots)
    args, kwargs = source.arguments()
    names = source.parameters
    tensors.check_leaves(args, kwargs, names)
    record = _record(case, key, args, kwargs, names)
    record.facts = source.facts
    record.code = keys.code(Path(case.golden), roots)
    record.device_facts = keys.facts(identity.resolve(case.settings.device))
    case_dir.mkdir(parents=True, exist_ok=True)
    tensors.save(case_dir / "inputs.pt", args, kwargs)
    artifacts.write(case_dir / "inputs.json", record)


def call_arguments(case: Case, golden: Golden) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Draw the arguments of the case's call: (args, kwargs), all tensors on the CPU."""
    if case.mode == "A":
        return golden.bind({argument.name: _draw(argument, case.settings.seed) for argument in case.arguments})
    return _from_factory(case, golden)


def check_memory(nbytes: int, what: str) -> None:
    """Refuse inputs that would not leave room for the run, before anything is allocated."""
    available = _available_bytes()
    if nbytes > MEMORY_SHARE * available:
        raise CaseFailure(
            Status.SKIPPED,
            f"The inputs of {what} take {nbytes / 2**30:.2f} GiB; this machine has {available / 2**30:.2f} GiB of memory "
            f"free, and inputs may take {MEMORY_SHARE:.0%} of it.",
            "Make the shapes smaller, or run the case on a machine with more memory.",
        )


def _available_bytes() -> int:
    """Memory that can be taken without swapping: the machine's, or the control group's where that is less."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else free
    for limit_file, used_file in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, used = Path("/sys/fs/cgroup", limit_file), Path("/sys/fs/cgroup", used_file)
        if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
            free = min(free, max(int(text) - int(used.read_text()), 0))
    return free


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
        made = factory("cpu", case=case.case) if takes_case else factory("cpu")
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
            "Allowed are (args, kwargs) for one case, or [(case, args, kwargs), …] for several; args is a list or tuple, "
            "kwargs a dict.",
        )
    matches = [item for item in made if item[0] == case.case]
    if len(matches) != 1:
        known = ", ".join(item[0] for item in made) or "none"
        found = "makes it not" if not matches else f"makes it {len(matches)} times"
        raise CaseFailure(
            Status.GOLDEN_FAILED,
            f"The cases file names case {case.case!r}, but {golden_file.FACTORY} of {case.golden} {found}; "
            f"it makes: {known}.",
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
