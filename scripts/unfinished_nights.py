"""Nights that were killed and never gone on with: the next night puts what they measured into the history.

A night that ends, however badly, writes its own rows; one that lost its process or its machine cannot.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import msgspec

from scripts import artifacts, history, history_rows
from scripts.cases import Case, Settings
from scripts.errors import ArtifactError
from scripts.history_rows import RunFacts
from scripts.night_lock import LockedCase, LockRecord
from scripts.plan import Plan, PlannedCase


def record(nights: Path, plan: Plan) -> list[str]:
    """Record every night below `nights` that has begun and is neither over nor in the history; returns their ids."""
    found = []
    for path in sorted(nights.glob("*/lock.json")):
        recorded = history.FOLDER / f"{path.parent.name}.parquet"
        if (path.parent / "verdicts.json").exists() or recorded.exists():
            continue
        try:
            lock = artifacts.read(path, LockRecord)
        except ArtifactError:
            continue  # cut off by a power failure, or of another version of this project
        cases = [_planned(case, locked, path.parent, plan) for case, locked in lock.cases.items()]
        history.write(history.FOLDER, history_rows.rows(cases, facts(lock)))
        found.append(lock.run_id)
    return found


def facts(lock: LockRecord) -> RunFacts:
    """What all rows of the night have in common."""
    started = datetime.fromisoformat(lock.started_at)
    return RunFacts(lock.run_id, started, lock.host, lock.project.commit, lock.project.dirty)


def _planned(case_id: str, locked: LockedCase, night: Path, plan: Plan) -> PlannedCase:
    """The case as it was then; what the lock does not hold (family, tier) as it is called now."""
    operator, _, name = case_id.partition("/")
    now = plan.by_id.get(case_id)
    settings = msgspec.convert(locked.settings, Settings)
    case = Case(
        operator, name, locked.golden, None, "A", (), settings, *((now.case.family, now.case.tier) if now else ())
    )
    return PlannedCase(case, locked.key, root=f"{night.as_posix()}/first")
