"""The captures of a case that lie under prof/, by the records inside them: time stamps say nothing after a copy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from scripts import key


class _When(msgspec.Struct):
    """The part of profile.json that says when a capture was made."""

    started_at: str = ""


class _Facts(msgspec.Struct):
    """The part of inputs.json that says on what."""

    device_facts: dict[str, str] = {}


def newest(
    case_folder: Path, prefix: str = "", facts: Mapping[str, str] | None = None, other_than: str = ""
) -> Path | None:
    """The folder of the finished capture that was begun last, None when there is none.

    Its name begins with `prefix` and is not `other_than`; it was made with these `facts`, where "" means
    that it has none.
    """
    found = [
        folder
        for folder in finished(case_folder, prefix)
        if folder.name != other_than and (facts is None or _has(folder, facts))
    ]
    return found[0] if len(found) == 1 else max(found, key=_began, default=None)


def finished(case_folder: Path, prefix: str = "") -> Iterator[Path]:
    """The key folders of a case that hold a finished capture and whose names begin with `prefix`, by name."""
    try:
        names = sorted(os.listdir(case_folder))
    except OSError:
        return
    for name in names:
        folder = case_folder / name
        if name.startswith(prefix) and key.PATTERN.fullmatch(name) and (folder / "profile.json").exists():
            yield folder


def _has(folder: Path, facts: Mapping[str, str]) -> bool:
    try:
        known = msgspec.json.decode((folder / "inputs.json").read_bytes(), type=_Facts).device_facts
    except (OSError, msgspec.MsgspecError):
        return False
    return all(known.get(name, "") == value for name, value in facts.items())


def _began(folder: Path) -> float:
    try:
        record = msgspec.json.decode((folder / "profile.json").read_bytes(), type=_When)
        return datetime.fromisoformat(record.started_at).timestamp()
    except (OSError, ValueError, msgspec.MsgspecError):
        return 0.0
