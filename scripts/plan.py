"""What one start of the workflow is about: every case with its key, and where its files lie.

Built without torch, when the DAG is built. The rules ask it for paths; the steps that run elsewhere read it back from
a file, whose name stays, so that a job's command text never changes with a case's details.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from scripts import artifacts, key, names, source_digest
from scripts.cases import Case, Settings
from scripts.cases_file import load
from scripts.devices import identity
from scripts.errors import ConfigError

if TYPE_CHECKING:
    from scripts.night import Night

DEVICES = ".devices"  # stands in an operator's place for what is measured of a device itself; no operator is called so
CACHE = "prof"
PLAN_FOLDER = Path(".snakemake/goldenprof")
# What `--config` may hold besides the settings of a case.
SELECTION_KEYS = ("tier", "family", "match")
RUN_KEY = "run"  # of `--config run=…`: the id of the night to go on with
ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "scripts" / "templates"


@dataclass(frozen=True)
class PlannedCase:
    """A case with the folder that its artifacts live in."""

    case: Case
    key: str
    problem: str = ""  # why its device cannot be used here, "" when it can or when a capture is at hand
    root: str = CACHE  # the folder that holds it: the cache, or that of one night

    @property
    def folder(self) -> Path:
        """prof/<operator>/<case>/<key>, relative to the working directory; prof/.devices/<environment> for a device."""
        folder = Path(self.root, self.case.operator, self.case.case)
        return folder if self.case.operator == DEVICES else folder / self.key

    @property
    def report(self) -> Path:
        """reports/<operator>/<case>.md."""
        return Path("reports", self.case.operator, f"{self.case.case}.md")

    @property
    def target(self) -> Path:
        """What to ask Snakemake for."""
        return self.folder / "peaks.json" if self.case.operator == DEVICES else self.report


class Plan:
    """All cases of a cases.yaml, resolved against this machine."""

    def __init__(
        self,
        cases: Iterable[Case],
        selection: Mapping[str, str] | None = None,
        root: str = CACHE,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._cases = list(cases)
        self._selection = dict(selection or {})
        self._rooted: dict[str, Plan] = {root: self}
        self.root = root
        self.config = dict(config or {})  # as given with --config
        # Set when the sweep, its page or a night is asked for, so that they are written even if cases fail.
        self.summary_wanted = False
        self.page_wanted = False
        self.night: Night | None = None

    @classmethod
    def load(cls, config: Mapping[str, Any]) -> Plan:
        """Read the cases file that `--config cases=…` names (config/cases.yaml by default).

        Every other key of `config` must be a setting, which then holds for all cases, or one of SELECTION_KEYS.
        Raises ConfigError with every mistake in the file.
        """
        overrides = {name: value for name, value in config.items() if name not in ("cases", RUN_KEY, *SELECTION_KEYS)}
        selection = {name: str(config[name]) for name in SELECTION_KEYS if config.get(name)}
        cases = load(Path(str(config.get("cases", "config/cases.yaml"))), overrides, root=Path.cwd())
        return cls(cases, selection, config=config)

    def rooted(self, root: str) -> Plan:
        """The same cases with their artifacts below `root`."""
        if root not in self._rooted:
            self._rooted[root] = Plan(self._cases, self._selection, root, self.config)
        return self._rooted[root]

    @cached_property
    def by_id(self) -> dict[str, PlannedCase]:
        """Every case by its id, in the order of the file."""
        return {case.id: _plan_case(case, self.root) for case in self._cases}

    @cached_property
    def devices(self) -> dict[str, PlannedCase]:
        """The devices that cases are measured on here, by environment digest; a stand-in has no peaks."""
        settings = dict.fromkeys(planned.case.settings.device for planned in self.by_id.values())
        found = [device for device in map(identity.resolve, settings) if not device.problem and not device.stand_in]
        return {key.environment_digest(device): _plan_device(device) for device in found}

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

    @cached_property
    def saved(self) -> Path:
        """The plan's file, for the steps that run in another process; written when first asked for."""
        return self.save()

    def save(self) -> Path:
        """Write the plan for the steps that run in another process; returns its path.

        The path is a parameter of their rules, so that it never changes: an edit of one case must not run the others.
        """
        everything = (*self.by_id.values(), *self.devices.values())
        data = msgspec.json.encode({planned.case.id: planned for planned in everything})
        path = PLAN_FOLDER / f"plan-{self.root.replace('/', '-')}.json"
        if not path.exists() or path.read_bytes() != data:
            artifacts.write_bytes(path, data)
        return path


def read_saved(path: Path) -> dict[str, PlannedCase]:
    """The cases of a saved plan by id."""
    stat = path.stat()
    return _read_saved(path, (stat.st_mtime_ns, stat.st_ino, stat.st_size))


@lru_cache(maxsize=4)
def _read_saved(path: Path, stamp: tuple[int, int, int]) -> dict[str, PlannedCase]:
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


def _plan_case(case: Case, root: str = CACHE) -> PlannedCase:
    golden = Path(case.golden)
    digest = _digest_of(case, golden)
    device = identity.resolve(case.settings.device)
    wanted = key.key(digest, device)
    # A night measures; what was brought from another machine is a cached result.
    if root == CACHE and ((case.settings.device == "auto" and device.kind == "cpu") or device.problem):
        brought = _brought(case, digest, device.kind if device.problem else "")
        if brought:
            return PlannedCase(case, brought)
    return PlannedCase(case, wanted, device.problem, root)


def _plan_device(device: identity.DeviceIdentity) -> PlannedCase:
    environment = key.environment_digest(device)
    case = Case(DEVICES, environment, "", None, "A", (), Settings(device=device.name))
    return PlannedCase(case, key.key("peaks", device))


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
