"""`goldenprof clean`: folders under prof/ that no case of cases.yaml uses any more.

Nothing is removed without `--remove`. Links are never followed, and nothing outside prof/ is looked at. Kept are the
folder in use, captures of the same case from other devices or versions (`--other-devices` lists these too), and
imported captures (`--imported`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from scripts import key
from scripts.errors import ConfigError
from scripts.formatting import plural
from scripts.list_cases import add_plan_options, load_plan, table

PROF = Path("prof")


class Reason(StrEnum):
    """Why no case uses a folder."""

    REMOVED_CASE = "the case is not in the cases file"
    OLD_KEY = "its golden, inputs or settings have changed since"
    OTHER_DEVICE = "made on another device or with other versions"
    IMPORTED = "imported capture"


@dataclass(frozen=True)
class Orphan:
    """A key folder that no case uses."""

    folder: Path
    reason: Reason
    nbytes: int


def add_parser(subparsers: Any, summary: str) -> None:
    """The options of `goldenprof clean`."""
    parser = subparsers.add_parser("clean", help=summary, description=__doc__)
    add_plan_options(parser)
    parser.add_argument("--remove", action="store_true", help="remove what is listed")
    parser.add_argument("--other-devices", action="store_true", help="also captures from other devices or versions")
    parser.add_argument("--imported", action="store_true", help="also imported captures")


def main(options: argparse.Namespace) -> int:
    """List the orphans, and remove them if asked to."""
    plan = load_plan(options)
    found = list(orphans({planned.case.id: planned.key for planned in plan.by_id.values()}))
    kept = {Reason.OTHER_DEVICE: options.other_devices, Reason.IMPORTED: options.imported}
    chosen = [orphan for orphan in found if kept.get(orphan.reason, True)]
    for row in table(("folder", "size", "reason"), [(str(o.folder), size(o.nbytes), o.reason) for o in chosen]):
        print(row)
    if options.remove:
        for orphan in chosen:
            remove(orphan)
    print(
        f"\n{plural(len(chosen), 'folder')}, {size(sum(orphan.nbytes for orphan in chosen))}. "
        f"{_advice(options, found, chosen)}"
    )
    return 0


def orphans(keys: Mapping[str, str], prof: Path = PROF) -> Iterator[Orphan]:
    """The key folders under `prof` that no case uses; `keys` has the key in use of every case by its id.

    Raises ConfigError when `prof` is a link.
    """
    if prof.is_symlink():
        raise ConfigError(f"{prof} is a link, and clean follows none. Run it in the folder that the link points to.")
    for operator in _folders(prof):
        for case in _folders(operator):
            for folder in _folders(case):
                if not key.PATTERN.fullmatch(folder.name):
                    continue
                if reason := _reason(folder, keys.get(f"{operator.name}/{case.name}")):
                    yield Orphan(folder, reason, _nbytes(folder))


def remove(orphan: Orphan, prof: Path = PROF) -> None:
    """Remove an orphan, and the folders of its case and operator where they are then empty.

    Raises ConfigError when a link has come into its path.
    """
    folder = orphan.folder
    places = (folder, *folder.parents)[:4]
    plain = len(places) == 4 and places[3] == prof and ".." not in folder.parts
    if not plain or any(place.is_symlink() for place in places):
        raise ConfigError(f"{folder} is not removed: it is not a plain folder three levels below {prof}.")
    shutil.rmtree(folder)
    latest = folder.with_name("latest")
    if latest.is_symlink() and not latest.exists():
        latest.unlink()
    for parent in folder.parents[:2]:
        try:
            parent.rmdir()
        except OSError:  # not empty
            break


def size(nbytes: int) -> str:
    """Bytes in MiB, with enough digits."""
    return f"{nbytes / 2**20:.1f} MiB"


def _reason(folder: Path, used: str | None) -> Reason | None:
    if folder.name == used:
        return None
    if _is_imported(folder):
        return Reason.IMPORTED
    if used is None:
        return Reason.REMOVED_CASE
    return Reason.OTHER_DEVICE if key.digest_of(used) == key.digest_of(folder.name) else Reason.OLD_KEY


def _is_imported(folder: Path) -> bool:
    try:
        return "imported_from" in json.loads((folder / "profile.json").read_bytes())["settings"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _folders(parent: Path) -> list[Path]:
    """The folders in `parent`, links left out, in order."""
    try:
        with os.scandir(parent) as entries:
            return sorted(parent / entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


def _nbytes(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        total += sum(os.lstat(os.path.join(place, name)).st_size for name in files)
    return total


def _advice(options: argparse.Namespace, found: list[Orphan], chosen: list[Orphan]) -> str:
    words = ["Removed." if options.remove else "Remove them with --remove."] if chosen else []
    for reason, flag in ((Reason.OTHER_DEVICE, "--other-devices"), (Reason.IMPORTED, "--imported")):
        left = sum(orphan.reason is reason for orphan in found) - sum(orphan.reason is reason for orphan in chosen)
        if left:
            words.append(f"{left} kept: {reason} ({flag} lists them).")
    return " ".join(words)
