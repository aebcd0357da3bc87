"""nights/<run id>/lock.json: everything that a night used, so that it can be repeated, or told apart, a year later."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from scripts import artifacts
from scripts.artifacts import InputsRecord
from scripts.devices import clocks, identity
from scripts.plan import ROOT, Plan

DIFF = "changes.diff"


@dataclass(frozen=True)
class Repository:
    """The state of a checkout."""

    path: str
    commit: str  # "" where there is no repository
    dirty: bool
    untracked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LockedDevice:
    """A device that cases of the night ask for."""

    setting: str  # as in cases.yaml: "auto", "npu:0"
    name: str
    model: str
    versions: dict[str, str]  # torch, driver, CANN or CUDA, …
    stand_in: bool
    clocks: dict[str, str]
    problem: str = ""  # why it cannot be used


@dataclass(frozen=True)
class LockedCase:
    """One case as it was resolved."""

    key: str
    golden: str
    settings: dict[str, Any]
    inputs_sha256: dict[str, str] = field(default_factory=dict)  # by tensor, known at the end


@dataclass
class LockRecord:
    """lock.json; written when the night begins, completed when it ends."""

    kind: ClassVar[str] = "lock"
    run_id: str
    started_at: str  # ISO 8601, UTC
    host: str
    plan: str  # digest of all cases with their keys: a night goes on only under the same
    project: Repository  # cases and goldens
    tool: Repository
    config: dict[str, Any]  # as given with --config
    cases_file: dict[str, str]  # path and SHA-256
    packages: dict[str, str]
    devices: list[LockedDevice]
    environment: dict[str, str]
    cases: dict[str, LockedCase]
    load_at_start: float  # 1-minute load average of the host
    ended_at: str = ""
    load_at_end: float | None = None


def plan_digest(plan: Plan) -> str:
    """Digest of what a night of this plan measures."""
    facts = sorted((planned.case.id, planned.key) for planned in plan.sweep())
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:16]


def repository(path: Path) -> Repository:
    """Commit and changes of the checkout around `path`."""
    commit = _git(path, "rev-parse", "HEAD").strip()
    status = _git(path, "status", "--porcelain", "--untracked-files=all").splitlines() if commit else []
    untracked = [line[3:] for line in status if line.startswith("??")]
    return Repository(str(path), commit, bool(status), untracked)


def write(folder: Path, run_id: str, started_at: datetime, host: str, plan: Plan) -> LockRecord:
    """Gather and write lock.json, and changes.diff where the project has changes that are not committed."""
    project = repository(Path.cwd())
    cases_file = Path(str(plan.config.get("cases", "config/cases.yaml")))
    lock = LockRecord(
        run_id=run_id,
        started_at=started_at.isoformat(),
        host=host,
        plan=plan_digest(plan),
        project=project,
        tool=repository(ROOT),
        config={name: str(value) for name, value in plan.config.items()},
        cases_file={"path": str(cases_file), "sha256": hashlib.sha256(cases_file.read_bytes()).hexdigest()},
        packages=_packages(),
        devices=[_device(setting) for setting in _settings(plan)],
        environment={"os": platform.platform(), "python": platform.python_version(), "cores": str(os.cpu_count())},
        cases={
            planned.case.id: LockedCase(planned.key, planned.case.golden, msgspec.to_builtins(planned.case.settings))
            for planned in plan.sweep()
        },
        load_at_start=os.getloadavg()[0],
    )
    if project.dirty:
        artifacts.write_bytes(folder / DIFF, _git(Path.cwd(), "diff", "HEAD").encode())
    artifacts.write(folder / "lock.json", lock)
    return lock


def complete(folder: Path, plan: Plan, ended_at: datetime) -> None:
    """Add what is known at the end: the inputs' hashes, the time and the host's load."""
    lock = artifacts.read(folder / "lock.json", LockRecord)
    for planned in plan.sweep():
        path = planned.folder / "inputs.json"
        if path.exists() and (locked := lock.cases.get(planned.case.id)):
            tensors = artifacts.read(path, InputsRecord).tensors
            hashes = {tensor.name: tensor.sha256 for tensor in tensors}
            lock.cases[planned.case.id] = replace(locked, inputs_sha256=hashes)
    lock.ended_at, lock.load_at_end = ended_at.isoformat(), os.getloadavg()[0]
    artifacts.write(folder / "lock.json", lock)


def _settings(plan: Plan) -> list[str]:
    """The devices that the night's cases may be measured on."""
    asked = {name for planned in plan.sweep() for name in planned.devices or (planned.case.settings.device,)}
    return sorted(asked)


def _device(setting: str) -> LockedDevice:
    found = identity.resolve(setting)
    return LockedDevice(
        setting, found.name, found.model, found.versions, found.stand_in, clocks.of(found.kind), found.problem
    )


def _packages() -> dict[str, str]:
    found = {str(one.metadata["Name"]): one.version for one in metadata.distributions() if one.metadata["Name"]}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def _git(path: Path, *arguments: str) -> str:
    """What git says about a checkout; "" where there is none, or no git."""
    try:
        return subprocess.run(["git", *arguments], cwd=path, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
