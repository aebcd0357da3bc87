"""`goldenprof discover FOLDER`: the cases.yaml entries for the operators that a folder holds, in any known form.

Files are read, not run; only the factories of golden files are asked for the names of their cases, each in a process of
its own (`--no-run` leaves them out). What could not be taken is listed with its reason.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib import util
from pathlib import Path
from typing import Any, Literal

import yaml

from scripts import artifacts, names
from scripts.errors import ConfigError
from scripts.formatting import plural
from scripts.plan import ROOT
from scripts.sources import cann_tables

KERNELBENCH = {"Model", "get_inputs", "get_init_inputs"}
FACTORY = "_make_inputs"
SKIPPED_FOLDERS = {"__pycache__", "node_modules", "prof", "reports", "site-packages", "build"}
ONE_CASE = "default"
MOST_FOLDERS = 6  # above a file, that may tell its operator from others of its name


@dataclass(frozen=True)
class Found:
    """One operator that can be taken."""

    name: str
    file: Path
    source: str
    cases: tuple[str, ...]
    missing: tuple[str, ...] = ()  # packages that it imports at its top level and that are not installed

    def entry(self, root: Path) -> dict[str, Any]:
        """Its entry under `operators`, with the file's path as seen from `root`."""
        inside = self.file.resolve().is_relative_to(root.resolve())
        path = self.file.resolve().relative_to(root.resolve()) if inside else self.file.resolve()
        source = {} if self.source == "golden" else {"source": self.source}
        cases: dict[str, Any] = dict.fromkeys(self.cases)
        return {"golden": path.as_posix(), **source, "family": self.source, "mode": "B", "cases": cases}


@dataclass(frozen=True)
class NotTaken:
    """A file that looks like an operator and cannot be taken as one."""

    file: Path
    reason: str


@dataclass
class Findings:
    """All that a folder holds."""

    found: list[Found] = field(default_factory=list)
    not_taken: list[NotTaken] = field(default_factory=list)
    others: int = 0  # Python files of no known form


def add_parser(subparsers: Any, summary: str) -> None:
    """The options of `goldenprof discover`."""
    parser = subparsers.add_parser("discover", help=summary, description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write a new cases file instead of printing it")
    parser.add_argument("--no-run", action="store_true", help="do not ask factories for their cases")


def main(options: argparse.Namespace) -> int:
    """Print or write the entries; reasons go to the error output."""
    if not options.folder.is_dir():
        raise ConfigError(f"{options.folder} is not a folder. Give the one that the operators lie in.")
    if options.write and options.write.exists():
        raise ConfigError(f"{options.write} exists already. Name a new file, and merge the two by hand.")
    findings = look(options.folder, run=not options.no_run)
    for item in findings.not_taken:
        print(f"not taken: {item.file}: {item.reason}", file=sys.stderr)
    for taken in findings.found:
        if taken.missing:
            print(f"will be skipped: {taken.file}: {', '.join(taken.missing)} is not installed", file=sys.stderr)
    others = f"; of no known form: {plural(findings.others, 'other Python file')}" if findings.others else ""
    print(
        f"{plural(len(findings.found), 'operator')} found, {len(findings.not_taken)} not taken{others}.",
        file=sys.stderr,
    )
    if not findings.found:
        return 1
    text = document(findings.found, Path.cwd())
    if options.write:
        artifacts.write_bytes(options.write, text.encode())
        print(f"Written to {options.write}: snakemake -j1 --config cases={options.write}", file=sys.stderr)
    else:
        print(text, end="")
    return 0


def look(folder: Path, run: bool = True) -> Findings:
    """Everything in `folder` and below; linked folders are not entered."""
    findings = Findings()
    goldens: list[Path] = []
    for file in _python_files(folder):
        item = _classified(file)
        if isinstance(item, Found):
            findings.found.append(item)
        elif isinstance(item, NotTaken):
            findings.not_taken.append(item)
        elif item == "golden":
            goldens.append(file)
        else:
            findings.others += 1
    for item in _factories(goldens) if run else (NotTaken(file, "its factory was not run") for file in goldens):
        (findings.found if isinstance(item, Found) else findings.not_taken).append(item)  # type: ignore[arg-type]
    findings.found = _named_apart(sorted(findings.found, key=lambda item: item.file))
    findings.not_taken.sort(key=lambda item: item.file)
    return findings


def document(found: Iterable[Found], root: Path) -> str:
    """A cases file of all of `found`."""
    operators = {item.name: item.entry(root) for item in found}
    return yaml.dump({"operators": operators}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes a case without keys of its own as `name:`."""


_Dumper.add_representer(type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", ""))


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if name.endswith(".py"))


def _cann_bench(file: Path) -> Found | NotTaken:
    """An operator's folder; a case that its tables describe wrongly is found when it runs."""
    try:
        cann_tables.proto(file.parent)
        ids = cann_tables.case_names(file.parent)
    except ConfigError as error:
        return NotTaken(file, str(error))
    if bad := [name for name in ids if names.problem(name)]:
        return NotTaken(file, f"case_ids cannot be names of cases: {', '.join(bad[:5])}. Allowed: {names.RULE}")
    return Found(file.parent.name, file, "cann_bench", tuple(ids)) if ids else NotTaken(file, "its table has no case")


def _classified(file: Path) -> Found | NotTaken | Literal["golden", "other"]:
    """What a Python file is; "golden" is one whose factory must be asked."""
    if file.name == "golden.py" and (file.parent / "proto.yaml").exists():
        return _cann_bench(file)
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        return NotTaken(file, f"is not Python: {error}")
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    present = KERNELBENCH & defined.keys()
    if present == KERNELBENCH:
        return Found(file.stem, file, "kernelbench", (ONE_CASE,), _missing_packages(tree, file))
    if "Model" in present and (len(present) > 1 or len(defined) == 1):
        return NotTaken(file, f"a Model without {' and '.join(sorted(KERNELBENCH - present))}")
    goldens = [name for name in defined if name.endswith("_golden") and not name.startswith("_")]
    if goldens and FACTORY in defined:
        return "golden"
    if goldens:
        call = f"{goldens[0]}({_parameters(defined[goldens[0]])})"
        return NotTaken(file, f"{call} has no {FACTORY}: write its inputs by hand (mode A)")
    if file.stem.endswith("_golden"):
        return NotTaken(file, f"no function *_golden; it has {', '.join(defined) or 'none'}")
    return "other"


def _missing_packages(tree: ast.Module, file: Path) -> tuple[str, ...]:
    """Packages that are imported at the top level, not inside a `try`, and are not there."""
    wanted = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
    wanted += [node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    packages = dict.fromkeys(name.partition(".")[0] for name in wanted)
    beside = {path.stem for path in file.parent.iterdir()}
    return tuple(name for name in packages if name not in beside and util.find_spec(name) is None)


def _parameters(node: Any) -> str:
    return ", ".join(argument.arg for argument in node.args.args)


def _factories(files: list[Path]) -> Iterator[Found | NotTaken]:
    """Every golden with the cases that its factory makes."""
    if not files:
        return
    command = [sys.executable, "-m", "scripts.sources.factory_names", *map(str, (file.resolve() for file in files))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for file, answer in zip(files, answers, strict=False):
        if "cases" not in answer:
            yield NotTaken(file, answer["problem"])
        elif bad := [name for name in answer["cases"] if names.problem(name)]:
            yield NotTaken(file, f"its cases cannot be called {', '.join(bad[:5])}. Allowed: {names.RULE}")
        else:
            yield Found(file.stem, file, "golden", tuple(answer["cases"]))
    for file in files[len(answers) :]:
        yield NotTaken(file, f"its factory could not be asked: {done.stderr.strip().splitlines()[-1:] or 'no answer'}")


def _named_apart(found: list[Found]) -> list[Found]:
    """Operators with names of their own: folders above the file are put before names that occur more than once."""
    depths = [0] * len(found)
    for _ in range(MOST_FOLDERS):
        made = [_name(item, depth) for item, depth in zip(found, depths, strict=True)]
        counts = Counter(name.casefold() for name in made)
        depths = [depth + (counts[name.casefold()] > 1) for name, depth in zip(made, depths, strict=True)]
    again: Counter[str] = Counter()
    for index, name in enumerate(made if found else []):
        again[name.casefold()] += 1
        made[index] = name if again[name.casefold()] == 1 else f"{name}_{again[name.casefold()]}"
    return [replace(item, name=name) for item, name in zip(found, made if found else [], strict=True)]


def _name(item: Found, depth: int) -> str:
    folder = item.file.resolve().parent
    own = folder.name if item.source == "cann_bench" else item.file.stem
    above = (folder.parent if item.source == "cann_bench" else folder).parts[1:]
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", "_".join([*above[len(above) - depth :], own])).lstrip("_.-")
    name = name[-names.MAX_LENGTH :].lstrip("_.-") or "operator"
    return f"{name}_operator" if names.operator_problem(name) else name
