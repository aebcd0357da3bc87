"""config/accepted_changes.yaml: changes of a case's time that the team has looked at and wants to keep.

    - case: attention_golden/*        # a case's id, or a pattern with * and ?
      since: 2026-06-12               # a day or time (UTC), or the id of the first run at the new level
      why: softmax in float32 now, for accuracy
      device_model: Ascend910B3       # optional: on this model only

From `since` on a case's baseline starts anew.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scripts import names, yaml_file
from scripts.errors import ConfigError

FILE = Path("config/accepted_changes.yaml")
FIELDS = ("case", "since", "why", "device_model")


@dataclass(frozen=True)
class AcceptedChange:
    """One entry of the file."""

    case: str
    since: datetime  # UTC
    why: str
    device_model: str = ""  # "": on every model

    def covers(self, case_id: str, device_model: str) -> bool:
        """Is it about this case on this device?"""
        return fnmatch.fnmatchcase(case_id, self.case) and self.device_model in ("", device_model)


def read(path: Path, run_starts: Mapping[str, datetime]) -> list[AcceptedChange]:
    """The entries of `path`, none when it does not exist; `run_starts` says when each known run began.

    Raises ConfigError with file and line when an entry cannot be used.
    """
    if not path.exists():
        return []
    document = yaml_file.read(path)
    for problem in document.problems:
        raise ConfigError(f"{path}:{problem.line}: {problem.message}")
    entries = document.value or []
    if not isinstance(entries, list):
        raise ConfigError(f"{path}:1: a list of entries is wanted, each with case, since and why.")
    return [_entry(entry, f"{path}:{document.line((i,))}", run_starts) for i, entry in enumerate(entries)]


def _entry(entry: object, where: str, run_starts: Mapping[str, datetime]) -> AcceptedChange:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: an entry has the keys case, since and why; this one is no mapping.")
    if unknown := [name for name in entry if name not in FIELDS]:
        hint = names.did_you_mean(str(unknown[0]), FIELDS)
        raise ConfigError(f"{where}: unknown key {names.quote(str(unknown[0]))}. Allowed: {', '.join(FIELDS)}.{hint}")
    if missing := [name for name in FIELDS[:3] if not str(entry.get(name) or "").strip()]:
        raise ConfigError(f"{where}: {missing[0]} is missing. An entry says case, since and why.")
    since = _when(str(entry["since"]).strip(), where, run_starts)
    return AcceptedChange(str(entry["case"]), since, str(entry["why"]), str(entry.get("device_model") or ""))


def _when(text: str, where: str, run_starts: Mapping[str, datetime]) -> datetime:
    if text in run_starts:
        return run_starts[text]
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        latest: Sequence[str] = list(run_starts)[-3:]
        known = f" The latest runs are {', '.join(latest)}." if latest else ""
        raise ConfigError(
            f"{where}: since is {names.quote(text)}, which is neither a time (2026-06-12, 2026-06-12T02:00) nor the id "
            f"of a run in the history.{known}"
        ) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)
