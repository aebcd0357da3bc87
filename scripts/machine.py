"""The machine that cases are measured on, where another one plans: what it has, written on it, read for the plan.

    goldenprof doctor --no-run --machine FILE      on the machine, in surroundings such as its jobs have
    snakemake --config machine=FILE                where the jobs are planned

A plan is a promise, whoever made it: the process that measures holds it against what it finds itself.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from scripts import artifacts, key
from scripts.devices import identity
from scripts.devices.identity import DeviceIdentity, Told
from scripts.errors import ArtifactError, CaseFailure, ConfigError
from scripts.status import Status


@dataclass
class MachineRecord:
    """The file."""

    kind: ClassVar[str] = "machine"
    host: str
    told: list[Told]  # one per kind of device


def save(path: Path) -> None:
    """Write what this machine has."""
    told = [Told(identity.survey(kind), identity.versions(kind)) for kind in identity.ORDER]
    artifacts.write(path, MachineRecord(platform.node(), told))


def plan_for(path: Path) -> None:
    """Have this process plan for the machine of the file; ConfigError when it cannot be read."""
    try:
        record = artifacts.read(path, MachineRecord)
    except ArtifactError:
        what = "does not hold what this version writes of a machine" if path.exists() else "is not there"
        raise ConfigError(
            f"--config machine={path}: the file {what}. "
            f"Write it on the machine that measures: `goldenprof doctor --no-run --machine {path}`."
        ) from None
    identity.plan_for(record.told)


def check_key(wanted: str, found: DeviceIdentity) -> None:
    """The device that this process finds must be the one that the key `wanted` was made for.

    Raises CaseFailure(INCOMPLETE) otherwise.
    """
    if key.key(key.digest_of(wanted), found) == wanted:
        return
    raise CaseFailure(
        Status.INCOMPLETE,
        f"{wanted} was planned for another device or other versions than this process finds on {platform.node()}: "
        f"{found.name} ({found.model}), {', '.join(f'{name} {version}' for name, version in found.versions.items())}.",
        "Run the workflow again: it plans for the machine as it is now. If it plans on another machine than it "
        "measures on, tell it what a job finds: docs/cluster.md.",
    )
