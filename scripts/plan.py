"""What one start of the workflow is about: every case with its key, and where its files lie.

Built without torch, when the DAG is built. The rules ask it for paths; the steps that run elsewhere read it back from
a file named by its content, so that a job's command text never changes with a case's details.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from scripts import artifacts, key, names, source_digest
from scripts.cases import Case
from scripts.cases_file import load
from scripts.devices import identity
from scripts.errors import ConfigError

PLAN_FOLDER = Path(".snakemake/goldenprof")
# What `--config` may hold besides the settings of a case.
SELECTION_KEYS = ("tier", "family", "match")
ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "scripts" / "templates"


@dataclass(frozen=True)
class PlannedCase:
    """A case with the folder that its artifacts live in."""

    case: Case
    key: str
    problem: str = ""  # why its device cannot be used here, "" when it can or when a capture is at hand

    @property
    def folder(self) -> Path:
        """prof/<operator>/<case>/<key>, relative to the working directory."""
        return Path("prof", self.case.operator, self.case.case, self.key)

    @property
    def report(self) -> Path:
        """reports/<operator>/<case>.md."""
        return Path("reports", self.case.operator, f"{self.case.case}.md")


class Plan:
    """All cases of a cases.yaml, resolved against this machine."""

    def __init__(self, cases: Iterable[Case], selection: Mapping[str, str] | None = None) -> None:
        self._cases = list(cases)
        self._selection = dict(selection or {})
        self.summary_wanted = (
            False  # set when the sweep is asked for, so that its summary is written even if cases fail
        )

    @classmethod
    def load(cls, config: Mapping[str, Any]) -> Plan:
        """Read the cases file that `--config cases=…` names (config/cases.yaml by default).

        Every other key of `config` must be a setting, which then holds for all cases, or one of SELECTION_KEYS.
        Raises ConfigError with every mistake in the file.
        """
        overrides = {name: value for name, value in config.items() if name not in ("cases", *SELECTION_KEYS)}
        selection = {name: str(config[name]) for name in SELECTION_KEYS if config.get(name)}
        return cls(load(Path(str(config.get("cases", "config/cases.yaml"))), overrides, root=Path.cwd()), selection)

    @cached_property
    def by_id(self) -> dict[str, PlannedCase]:
        """Every case by its id, in the order of the file."""
        return {case.id: _plan_case(case) for case in self._cases}

    def case(self, operator: str, case: str) -> PlannedCase:
        """The planned case, or ConfigError with the nearest ones when there is none of that name."""
        if (found := self.by_id.get(f"{operator}/{case}")) is None:
            raise ConfigError(_unknown("case", f"{operator}/{case}", self.by_id))
        return found

    def operator(self, operator: str) -> list[PlannedCase]:
        """All cases of an operator, or ConfigError when there is none."""
        found = [planned for planned in self.by_id.values() if planned.case.operator == operator]
        if not found:
            raise ConfigError(_unknown("operator", operator, {case.operator: None for case in self._cases}))
        return found

    def at(self, operator: str, case: str, wanted_key: str) -> PlannedCase:
        """The planned case when its key is `wanted_key`; ConfigError for a key of other code, settings or device."""
        planned = self.case(operator, case)
        if planned.key != wanted_key:
            raise ConfigError(
                f"prof/{operator}/{case}/{wanted_key} cannot be made: the key of {planned.case.id} is now "
                f"{planned.key}. Ask for the report instead: {planned.report}."
            )
        return planned

    def sweep(self) -> list[PlannedCase]:
        """The cases of a run without a named target, narrowed by `tier`, `family` and `match` of --config."""
        chosen = [planned for planned in self.by_id.values() if self._selects(planned.case)]
        if not chosen:
            wanted = ", ".join(f"{name}={value}" for name, value in self._selection.items())
            raise ConfigError(
                f"No case is selected by --config {wanted}. "
                f"Families: {self._known('family')}; tiers: {self._known('tier')}."
            )
        return chosen

    def _selects(self, case: Case) -> bool:
        for name in ("tier", "family"):
            if name in self._selection and getattr(case, name) not in self._selection[name].split(","):
                return False
        return "match" not in self._selection or fnmatch.fnmatchcase(case.id, self._selection["match"])

    def _known(self, field: str) -> str:
        return ", ".join(sorted({getattr(case, field) or "(none)" for case in self._cases}))

    def save(self) -> Path:
        """Write the plan for the steps that run in another process; returns its path, named by its content."""
        data = msgspec.json.encode({planned.case.id: planned for planned in self.by_id.values()})
        path = PLAN_FOLDER / f"plan-{hashlib.sha256(data).hexdigest()[:16]}.json"
        if not path.exists():
            artifacts.write_bytes(path, data)
        return path


@lru_cache(maxsize=4)
def read_saved(path: Path) -> dict[str, PlannedCase]:
    """The cases of a saved plan by id; a plan's name is its content, so that it is read once."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, PlannedCase])


@cache
def code_digest(*modules: str) -> str:
    """Digest of `scripts/<module>.py` and of all they import from this project: what a cheap step depends on."""
    files = [ROOT / "scripts" / f"{module}.py" for module in modules]
    templates = (
        sorted(TEMPLATES.glob("*"))
        if any(TEMPLATES.name in file.read_text() for file in source_digest.local_modules(files, [ROOT]))
        else []
    )
    total = hashlib.sha256(source_digest.digest(files, [ROOT]).encode())
    for template in templates:
        total.update(template.read_bytes())
    return total.hexdigest()[:16]


def _plan_case(case: Case) -> PlannedCase:
    golden = Path(case.golden)
    digest = _digest_of(case, golden)
    device = identity.resolve(case.settings.device)
    wanted = key.key(digest, device)
    if (case.settings.device == "auto" and device.kind == "cpu") or device.problem:
        brought = _brought(case, digest, device.kind if device.problem else "")
        if brought:
            return PlannedCase(case, brought)
    return PlannedCase(case, wanted, device.problem)


@cache
def _roots() -> tuple[Path, ...]:
    return (ROOT, Path.cwd())


def _digest_of(case: Case, golden: Path) -> str:
    return key.case_digest(case, golden, _roots())


def _brought(case: Case, digest: str, kind: str) -> str:
    """Key of a finished capture of the same case from another machine's accelerator; "" when there is none."""
    folder = Path("prof", case.operator, case.case)
    try:
        keys = sorted(os.listdir(folder))
    except OSError:
        return ""
    kinds = [kind] if kind else [kind for kind in identity.ORDER if kind != "cpu"]
    for wanted in kinds:
        for name in keys:
            if name.startswith(f"{digest}-{wanted}-") and (folder / name / "profile.json").exists():
                return name
    return ""


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    near = names.nearest(name, list(known))
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return (
        f"There is no {what} {name!r} in the cases file.{hint} Its {len(known)} {what}s are listed by `snakemake -n`."
    )
