"""`goldenprof clean`: folders under prof/ that no case of the cases files uses any more.

Nothing is removed without `--remove`. Links are never followed, and nothing outside prof/ is looked at. Kept are the
folder in use, captures of cases that are in none of the files (`--absent-cases` lists these too: a capture does not say
which file its case is from), captures of the same case from other devices or versions (`--other-devices`), and imported
captures (`--imported`). With several cases files, give each with `--cases`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from scripts import key
from scripts.errors import ConfigError
from scripts.formatting import plural
from scripts.list_cases import CASES, load_plan, table

PROF = Path("prof")


class Reason(StrEnum):
    """Why no case uses a folder."""

    ABSENT_CASE = "the case is in none of the cases files read"
    OLD_KEY = "its golden, inputs or settings have changed since"
    OTHER_DEVICE = "made on another device or with other versions"
    IMPORTED = "imported capture"


# What is kept, and left off the list, unless its option is given.
KEPT = {Reason.ABSENT_CASE: "absent_cases", Reason.OTHER_DEVICE: "other_devices", Reason.IMPORTED: "imported"}


@dataclass(frozen=True)
class Orphan:
    """A key folder that no case uses."""

    folder: Path
    reason: Reason
    nbytes: int


def add_parser(subparsers: Any, summary: str) -> None:
    """The options of `goldenprof clean`."""
    parser = subparsers.add_parser("clean", help=summary, description=__doc__)
    parser.add_argument(
        "--cases", type=Path, action="append", metavar="FILE", help=f"cases file, may be repeated (default: {CASES})"
    )
    parser.add_argument("--device", help="as if every case had this `device`")
    parser.add_argument("--remove", action="store_true", help="remove what is listed")
    parser.add_argument(
        "--absent-cases", action="store_true", help="also captures of cases that are in none of the files"
    )
    parser.add_argument("--other-devices", action="store_true", help="also captures from other devices or versions")
    parser.add_argument("--imported", action="store_true", help="also imported captures")


def main(options: argparse.Namespace) -> int:
    """List the orphans, and remove them if asked to."""
    files = options.cases or [CASES]
    found = list(orphans(_keys(files, options.device)))
    kept = {reason: getattr(options, flag) for reason, flag in KEPT.items()}
    print(
        f"Cases files read: {', '.join(map(str, files))}. Captures of cases of another file count as not used: "
        "give that file with a further --cases.\n"
    )
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


def _keys(files: Sequence[Path], device: str | None) -> dict[str, set[str]]:
    """The keys in use of every case of the files, by its id: two files may have different cases of one id."""
    keys: dict[str, set[str]] = {}
    for file in files:
        for planned in load_plan(argparse.Namespace(cases=file, device=device)).by_id.values():
            keys.setdefault(planned.case.id, set()).add(planned.key)
    return keys


def orphans(keys: Mapping[str, Collection[str]], prof: Path = PROF) -> Iterator[Orphan]:
    """The key folders under `prof` that no case uses; `keys` has the keys in use of every case by its id.

    Raises ConfigError when `prof` is a link.
    """
    if prof.is_symlink():
        raise ConfigError(f"{prof} is a link, and clean follows none. Run it in the folder that the link points to.")
    for operator in _folders(prof):
        for case in _folders(operator):
            for folder in _folders(case):
                if not key.PATTERN.fullmatch(folder.name):
                    continue
                if reason := _reason(folder, keys.get(f"{operator.name}/{case.name}", ())):
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


def _reason(folder: Path, used: Collection[str]) -> Reason | None:
    if folder.name in used:
        return None
    if _is_imported(folder):
        return Reason.IMPORTED
    if not used:
        return Reason.ABSENT_CASE
    return Reason.OTHER_DEVICE if key.digest_of(folder.name) in map(key.digest_of, used) else Reason.OLD_KEY


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
    for reason, flag in KEPT.items():
        left = sum(orphan.reason is reason for orphan in found) - sum(orphan.reason is reason for orphan in chosen)
        if left:
            words.append(f"{left} kept: {reason} (--{flag.replace('_', '-')} lists them).")
    return " ".join(words)
