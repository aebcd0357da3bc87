"""Reading cases.yaml into `Case`s, or refusing it with every mistake in it.

`python -m scripts.cases_file --doc` prints the tables of keys and recipes that docs/cases.md holds.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from scripts import cases_schema, inits, names, yaml_file, yaml_values
from scripts.cases import Argument, Case, Settings, TensorSpec
from scripts.cases_check import Checker, init_text
from scripts.errors import ConfigError
from scripts.yaml_file import Document
from scripts.yaml_values import Key, Problem

_PLAIN_KEY = re.compile(r"[\w-]+")
_FLOATS = ("noise_mib", "timeout_s")


@dataclass(frozen=True)
class CasesFile:
    """What a cases file says."""

    cases: list[Case]  # in the order of the file
    devices: Any = None  # the value of `devices`, None without it (scripts/devices/pool.py)


def load(path: Path, overrides: Mapping[str, Any] | None = None, root: Path | None = None) -> list[Case]:
    """The cases of `read`."""
    return read(path, overrides, root).cases


def read(path: Path, overrides: Mapping[str, Any] | None = None, root: Path | None = None) -> CasesFile:
    """Read the cases file `path`.

    `overrides` are settings from the command line; they hold for every case, whatever the file says, and their text
    is read as YAML ("3" is 3). Paths of goldens are relative to `root`, by default the folder above the one that `path`
    lies in. Raises ConfigError that lists every mistake with its line and key.
    """
    document = yaml_file.read(path)
    if document.value is None:
        raise ConfigError(f"{path} is empty. It needs `operators:` with at least one operator and one case.")
    typed = {
        name: yaml_values.scalar(value) if isinstance(value, str) else value
        for name, value in (overrides or {}).items()
    }
    mistakes = [
        *(f"--config: {_dotted(key)}{message}" for key, message in _override_problems(typed)),
        *(
            f"{path}:{found.line}: {_dotted(found.key)}{found.message}"
            for found in _file_problems(document, root or _root(path))
        ),
    ]
    if mistakes:
        raise ConfigError(_listed(path, mistakes))
    return CasesFile(list(_cases(document.value, typed)), document.value.get("devices"))


def _root(path: Path) -> Path:
    return path.resolve().parent.parent


def _override_problems(overrides: dict[str, Any]) -> list[tuple[Key, str]]:
    found = cases_schema.problems(overrides, "settings")
    checker = Checker(Path(), ())
    checker.finite_settings(overrides)
    return found + checker.found


def _file_problems(document: Document, root: Path) -> list[Problem]:
    """All mistakes, by line."""
    refused = cases_schema.problems(document.value)
    checker = Checker(root, [key for key, _ in refused])
    checker.check(document.value)
    found = [Problem(document.line(key), key, message) for key, message in (*refused, *checker.found)]
    return sorted([*document.problems, *found], key=lambda problem: (problem.line, _dotted(problem.key)))


def _listed(path: Path, mistakes: list[str]) -> str:
    if len(mistakes) == 1:
        return mistakes[0]
    return "\n  ".join([f"{path} cannot be used as it is; {len(mistakes)} mistakes:", *mistakes])


def _dotted(key: Key) -> str:
    """`operators."a.b".cases.p0.inputs.kv[1]: `; keys that are not plain stand in quotes."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (
                part if _PLAIN_KEY.fullmatch(part) and len(part) <= 100 else names.quote(part)
            )
    return f"{text}: " if text else ""


def _cases(document: dict[str, Any], overrides: dict[str, Any]) -> Iterable[Case]:
    base = {**cases_schema.defaults(), **(document.get("defaults") or {})}
    for name, operator in document["operators"].items():
        inherited = _override(base, operator)
        golden = posixpath.normpath(operator["golden"])
        family = operator.get("family") or _family(golden)
        for case_name, body in operator["cases"].items():
            case = body or {}
            yield Case(
                operator=name,
                case=case_name,
                golden=golden,
                function=operator.get("function"),
                mode=operator["mode"],
                arguments=_arguments(case),
                settings=_settings({**_override(inherited, case), **overrides}),
                family=family,
                tier=case.get("tier", ""),
                aliases=_aliases((name, *operator.get("aliases", ())), (case_name, *case.get("aliases", ()))),
                source=operator.get("source", "golden"),
                train=operator.get("train", False),
                constants=tuple(
                    Argument(constant, is_value=True, value=value)
                    for constant, value in case.get("constants", {}).items()
                ),
            )


def _aliases(operators: tuple[str, ...], cases: tuple[str, ...]) -> tuple[str, ...]:
    """Every id that the case may have had; the first of each is its present name."""
    return tuple(f"{operator}/{case}" for operator in operators for case in cases)[1:]


def _override(settings: dict[str, Any], level: dict[str, Any]) -> dict[str, Any]:
    return {name: level.get(name, value) for name, value in settings.items()}


def _settings(values: dict[str, Any]) -> Settings:
    """Numbers get one type whichever way they were written: 1e1 iterations are 10, 480 MiB are 480.0."""
    typed: dict[str, Any] = {
        name: float(value) if name in _FLOATS else int(value) if isinstance(value, float) else value
        for name, value in values.items()
    }
    return Settings(**typed)


def _family(golden: str) -> str:
    """The folder below golden/ that the file lies in, "" for a file elsewhere."""
    parts = PurePosixPath(golden).parts
    return parts[1] if len(parts) > 2 and parts[0] == "golden" else ""


def _arguments(case: dict[str, Any]) -> tuple[Argument, ...]:
    tensors = (
        Argument(name, tuple(map(_tensor, value)), is_list=True)
        if isinstance(value, list)
        else Argument(name, (_tensor(value),))
        for name, value in case.get("inputs", {}).items()
    )
    values = (
        Argument(name, is_value=True, value=value)
        for group in ("scalars", "kwargs")
        for name, value in case.get(group, {}).items()
    )
    return (*tensors, *values)


def _tensor(entry: dict[str, Any]) -> TensorSpec:
    """The recipe is kept in its one spelling, so that `u(0, 1)` and `uniform(0,1.0)` are one case."""
    recipe = inits.spelling(init_text(entry.get("init", cases_schema.default_init())))
    return TensorSpec(shape=tuple(map(int, entry["shape"])), dtype=entry["dtype"], init=recipe)


def main(arguments: list[str]) -> int:
    """Print the tables for `--doc`."""
    if arguments != ["--doc"]:
        print("Usage: python -m scripts.cases_file --doc", file=sys.stderr)
        return 2
    print(cases_schema.table(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
