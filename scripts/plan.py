"""What one start of the workflow is about: every case with its key, and where its files lie.

Built without torch, when the DAG is built. The rules ask it for paths; the steps that run elsewhere read it back from
a file, whose name stays, so that a job's command text never changes with a case's details.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from scripts import artifacts, captures, key, machine, names, source_digest
from scripts.cases import Case, Settings
from scripts.cases_file import read
from scripts.devices import identity
from scripts.devices.identity import DeviceIdentity
from scripts.devices.pool import Pool
from scripts.errors import ConfigError
from scripts.formatting import TEMPLATES

if TYPE_CHECKING:
    from scripts.night import Night

DEVICES = ".devices"  # stands in an operator's place for what is measured of a device itself; no operator is called so
CACHE = "prof"
PLAN_FOLDER = Path(".snakemake/goldenprof")
# What `--config` may hold besides the settings of a case.
SELECTION_KEYS = ("tier", "family", "match")
PLAN_KEYS = ("cases", "devices", "machine", "stale_on", *SELECTION_KEYS)
RUN_KEY = "run"  # of `--config run=…`: the id of the night to go on with
CASES = "config/cases.yaml"
ROOT = Path(__file__).resolve().parent.parent


# The tier that a sweep takes by itself, by whether the device is a CPU, and the other one.
TIERS = {True: ("smoke", "p0"), False: ("p0", "smoke")}


@dataclass(frozen=True)
class PlannedCase:
    """A case with the folder that its artifacts live in."""

    case: Case
    key: str
    problem: str = ""  # why its device cannot be used here, "" when it can or when a capture is at hand
    root: str = CACHE  # the folder that holds it: the cache, or that of one night
    devices: tuple[str, ...] = ()  # its job is handed a free one of these; without any, `device` says where it runs
    config: str = ""  # what decides what is measured of its run's --config, as it stands before a target

    @property
    def device(self) -> str:
        """The device that its key stands for; the others of `devices` are of the same model."""
        return self.devices[0] if self.devices else self.case.settings.device

    @cached_property
    def place(self) -> str:
        """prof/<operator>/<case>/<key>, relative to the working directory; prof/.devices/<environment> for a device."""
        place = f"{self.root}/{self.case.operator}/{self.case.case}"
        return place if self.case.operator == DEVICES else f"{place}/{self.key}"

    @cached_property
    def folder(self) -> Path:
        """`place` as a path; a string is cheaper where there are thousands."""
        return Path(self.place)

    @cached_property
    def report(self) -> Path:
        """reports/<operator>/<case>.md."""
        return Path("reports", self.case.operator, f"{self.case.case}.md")

    @property
    def target(self) -> Path:
        """What to ask Snakemake for."""
        return self.folder / "peaks.json" if self.case.operator == DEVICES else self.report

    @property
    def command(self) -> str:
        """What makes the same again, from what is cached."""
        return f"snakemake -j1 {self.config}{shlex.quote(self.target.as_posix())}"

    def link_latest(self) -> None:
        """Make prof/<operator>/<case>/latest lead to the folder in use, in one step."""
        link = self.folder.with_name("latest")
        try:
            if self.root != CACHE or self.case.operator == DEVICES or os.readlink(link) == self.key:
                return
        except OSError:
            pass
        temporary = link.with_name(f".latest.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(self.key, target_is_directory=True)
        try:
            temporary.replace(link)
        except IsADirectoryError:  # a copy that followed the link left a folder in its place
            temporary.unlink()


class Plan:
    """All cases of a cases.yaml, resolved against this machine."""

    def __init__(
        self,
        cases: Iterable[Case],
        selection: Mapping[str, str] | None = None,
        root: str = CACHE,
        config: Mapping[str, Any] | None = None,
        stale_on: tuple[str, ...] = key.FACTS,
        pool: Pool = Pool(),  # noqa: B008
    ) -> None:
        self._cases = list(cases)
        self.pool = pool
        self._selection = dict(selection or {})
        self._rooted: dict[str, Plan] = {root: self}
        self.root = root
        self.config = dict(config or {})  # as given with --config
        self.config_words = _words(self.config)  # see PlannedCase.config
        self._stale_on = stale_on
        # Asked when the keys are made: whether the cases are to be measured whatever is there, so that no capture of
        # another machine or version stands for theirs.
        self.anew: Callable[[], bool] = lambda: False
        # Set when the sweep, its page or a night is asked for, so that they are written even if cases fail.
        self.summary_wanted = False
        self.page_wanted = False
        self.night: Night | None = None

    @classmethod
    def load(cls, config: Mapping[str, Any]) -> Plan:
        """Read the cases file that `--config cases=…` names (config/cases.yaml by default).

        Every other key of `config` must be a setting, which then holds for all cases, or one of PLAN_KEYS.
        Raises ConfigError with every mistake in the file.
        """
        if config.get("machine"):
            machine.plan_for(Path(str(config["machine"])))
        overrides = {name: value for name, value in config.items() if name not in (*PLAN_KEYS, RUN_KEY)}
        _known_keys(overrides)
        selection = {name: str(config[name]) for name in SELECTION_KEYS if config.get(name)}
        file = read(Path(str(config.get("cases", CASES))), overrides, root=Path.cwd())
        pool = Pool.of(config.get("devices", file.devices))
        return cls(file.cases, selection, config=config, stale_on=_stale_on(config.get("stale_on")), pool=pool)

    @classmethod
    def read(cls, files: Iterable[Path], config: Mapping[str, Any]) -> Plan:
        """The plan that another process saved, one file for each folder of artifacts: nothing is decided anew."""
        plans = [cls._read(file, config) for file in files]
        plans[0]._rooted.update({plan.root: plan for plan in plans})
        return plans[0]

    @classmethod
    def _read(cls, file: Path, config: Mapping[str, Any]) -> Plan:
        planned = read_saved(file)
        devices = {found.case.case: found for found in planned.values() if found.case.operator == DEVICES}
        cases = {name: found for name, found in planned.items() if found.case.operator != DEVICES}
        plan = cls([found.case for found in cases.values()], root=next(iter(cases.values())).root, config=config)
        plan.by_id, plan.devices, plan.saved = cases, devices, file
        return plan

    def all_rooted(self) -> list[Plan]:
        """This plan and those for other folders of artifacts that this run has asked for."""
        return list(self._rooted.values())

    def rooted(self, root: str) -> Plan:
        """The same cases with their artifacts below `root`."""
        if root not in self._rooted:
            self._rooted[root] = Plan(self._cases, self._selection, root, self.config, pool=self.pool)
        return self._rooted[root]

    @cached_property
    def by_id(self) -> dict[str, PlannedCase]:
        """Every case by its id, in the order of the file."""
        here, known = roots(), dict[str, dict[str, str]]()
        for case in self._cases:  # many share a file
            if case.golden not in known:
                known[case.golden] = key.code(Path(case.golden), here)
        return {case.id: self._planned(case, known[case.golden]) for case in self._cases}

    def _planned(self, case: Case, code: dict[str, str]) -> PlannedCase:
        """The case with the folder to use: its own, or that of a cached capture that serves as well.

        That is one whose facts differ only where they were said not to count, or, where the device is not here, one
        that was brought from a machine that has it. A night measures, and takes neither.
        """
        digest = key.case_digest(case, Path(case.golden), roots(), code)
        device, *others = self._devices_for(case.settings.device)
        names = tuple(one.name for one in (device, *others)) if self.pool else ()
        wanted = PlannedCase(case, key.key(digest, device), device.problem, self.root, names, self.config_words)
        if self.root != CACHE or self.anew():
            return wanted
        if (case.settings.device == "auto" and device.kind == "cpu" and not self.pool) or device.problem:
            kinds = [device.kind] if device.problem else [kind for kind in identity.ORDER if kind != "cpu"]
            for kind in kinds:
                if brought := captures.newest(wanted.folder.parent, f"{digest}-{kind}-"):
                    return PlannedCase(case, brought.name, config=self.config_words)
        if set(self._stale_on) != set(key.FACTS) and not (wanted.folder / "profile.json").exists():
            known = key.facts(device)
            same = {name: known.get(name, "") for name in self._stale_on}
            if serves := captures.newest(wanted.folder.parent, f"{digest}-{device.kind}-", same):
                return replace(wanted, key=serves.name)
        return wanted

    def _devices_for(self, setting: str) -> list[DeviceIdentity]:
        """The devices of one model that cases with this `device` may be handed, all of them absent if none is here."""
        fitting = self.pool.fitting(setting)
        usable = [device for device in fitting if not device.problem] or fitting
        environment = key.environment_digest(usable[0])
        return [device for device in usable if device.problem or key.environment_digest(device) == environment]

    @property
    def profile_jobs(self) -> int:
        """How many profile jobs can have a device at a time; one without a pool, since a run means one device then."""
        if not self.pool:
            return 1
        settings = {case.settings.device for case in self._cases}
        found = {one.lock for setting in settings for one in self._devices_for(setting) if not one.problem}
        return max(len(found), 1)

    def left_out(self) -> Iterator[str]:
        """Of the devices in `devices`, those that no case is handed, and why."""
        settings = {case.settings.device for case in self._cases}
        used = {one.name for setting in settings for one in self._devices_for(setting)}
        for device in self.pool.members:
            if device.problem:
                yield f"{device.name} is taken out of this run: {device.problem}"
            elif device.name not in used:
                yield f"{device.name} ({device.model}) is handed to no case: cases are for {', '.join(sorted(used))}."

    @cached_property
    def devices(self) -> dict[str, PlannedCase]:
        """The devices that cases' captures are made on here, by environment digest; a stand-in has no peaks."""
        used = {planned.key.rpartition("-")[2] for planned in self.by_id.values()}
        settings = dict.fromkeys(planned.case.settings.device for planned in self.by_id.values())
        known: dict[str, dict[str, DeviceIdentity]] = {}
        for device in (one for setting in settings for one in self._devices_for(setting)):
            if not device.problem and not device.stand_in:
                known.setdefault(key.environment_digest(device), {})[device.name] = device
        return {
            environment: self._plan_device(list(found.values()))
            for environment, found in known.items()
            if environment in used
        }

    def _plan_device(self, found: list[DeviceIdentity]) -> PlannedCase:
        environment = key.environment_digest(found[0])
        case = Case(DEVICES, environment, "", None, "A", (), Settings(device=found[0].name))
        names = tuple(device.name for device in found) if self.pool else ()
        return PlannedCase(case, key.key("peaks", found[0]), devices=names, config=self.config_words)

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

    def selected(self) -> list[PlannedCase]:
        """Every case, narrowed by `tier`, `family` and `match` of --config; ConfigError when none is left."""
        chosen = [planned for planned in self.by_id.values() if self._selects(planned.case)]
        if not chosen:
            wanted = ", ".join(f"{name}={value}" for name, value in self._selection.items())
            raise ConfigError(
                f"No case is selected by {wanted}. Families: {self._known('family')}; tiers: {self._known('tier')}."
            )
        return chosen

    def sweep(self) -> list[PlannedCase]:
        """The selected cases that a run without a named target takes.

        Without `tier` or `match`, an operator that has both takes its `smoke` cases on a CPU and its `p0` cases on an
        accelerator; `tier=all` takes all.
        """
        chosen = self.selected()
        if {"tier", "match"} & self._selection.keys():
            return chosen
        tiers = {(planned.case.operator, planned.case.tier) for planned in chosen}
        return [planned for planned in chosen if _suits_its_device(planned, tiers)]

    def _selects(self, case: Case) -> bool:
        for name in ("tier", "family"):
            wanted = self._selection.get(name, "all").split(",")
            if wanted != ["all"] and getattr(case, name) not in wanted:
                return False
        return "match" not in self._selection or fnmatch.fnmatchcase(case.id, self._selection["match"])

    def _known(self, field: str) -> str:
        return ", ".join(sorted({getattr(case, field) or "(none)" for case in self._cases}))

    @cached_property
    def saved(self) -> Path:
        """The plan's file, for the steps that run in another process; written when first asked for."""
        return self.save()

    def save(self) -> Path:
        """Write the plan for the steps that run in another process; returns its path, named by its content."""
        everything = (*self.by_id.values(), *self.devices.values())
        data = msgspec.json.encode({planned.case.id: planned for planned in everything})
        path = PLAN_FOLDER / f"plan-{hashlib.sha256(data).hexdigest()[:16]}.json"
        if not path.exists():
            artifacts.write_bytes(path, data)
        return path


@lru_cache(maxsize=4)
def read_saved(path: Path) -> dict[str, PlannedCase]:
    """The cases of a saved plan by id; a plan's name is its content, so that it is read once."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, PlannedCase])


@cache
def code_digest(*modules: str, templates: bool) -> str:
    """Digest of what a cheap step depends on: `scripts/<module>.py`, all they import from this project, templates."""
    files = [ROOT / "scripts" / f"{module}.py" for module in modules]
    total = hashlib.sha256(source_digest.digest(files, [ROOT]).encode())
    for template in sorted(TEMPLATES.glob("*")) if templates else ():
        total.update(template.read_bytes())
    return total.hexdigest()[:16]


def _stale_on(wanted: object) -> tuple[str, ...]:
    """The facts of a device that count, from `--config stale_on=torch,cann`; all of them by default."""
    if wanted is None:
        return key.FACTS
    chosen = tuple(filter(None, (name.strip() for name in str(wanted).split(","))))
    for name in chosen:
        if name not in key.FACTS:
            raise ConfigError(
                f"--config stale_on: there is no fact {name!r}.{names.did_you_mean(name, key.FACTS)} "
                f"Allowed, with commas: {', '.join(key.FACTS)}."
            )
    return chosen


def _known_keys(overrides: Iterable[str]) -> None:
    """Raise ConfigError for a key of --config that is neither a setting nor of the run."""
    settings, of_the_run = [field.name for field in fields(Settings)], (*PLAN_KEYS, RUN_KEY)
    for name in overrides:
        if name not in settings:
            raise ConfigError(
                f"--config: there is no key {names.quote(name)}.{names.did_you_mean(name, [*settings, *of_the_run])} "
                f"Allowed are settings of cases ({', '.join(settings)}) and of the run: {', '.join(of_the_run)}."
            )


def _words(config: Mapping[str, Any]) -> str:
    """Of `config` what decides what is measured, as words of a command line before a target, without which Snakemake
    would take the target for more of it.
    """
    left_out = (*SELECTION_KEYS, "stale_on", RUN_KEY)
    given = {name: str(value) for name, value in config.items() if name not in left_out and value is not None}
    if given.get("cases") == CASES:
        del given["cases"]
    return f"--config {shlex.join(f'{name}={value}' for name, value in given.items())} -- " if given else ""


def roots() -> tuple[Path, ...]:
    """Folders whose modules are local to goldens; the project's own come first."""
    return (Path.cwd(), ROOT)


def _suits_its_device(planned: PlannedCase, tiers: set[tuple[str, str]]) -> bool:
    """Whether a sweep takes the case by itself: not where its operator has one of the tier meant for the device."""
    wanted, other = TIERS[key.kind_of(planned.key) == "cpu"]
    return planned.case.tier != other or (planned.case.operator, wanted) not in tiers


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    return (
        f"There is no {what} {name!r} in the cases file.{names.did_you_mean(name, list(known))} "
        f"Its {len(known)} {what}s are listed by `goldenprof list`."
    )
