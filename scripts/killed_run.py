"""What a killed run has left in this folder: the next run clears it away once it is sure that nobody else is there.

Snakemake's locks, and its marks of files that were being made, outlive a run that is killed or whose machine loses its
power, and do not say whose they are. So every run holds a lock of the kernel's beside them, which ends with its
process: who gets it for itself is alone.
"""

from __future__ import annotations

import base64
import fcntl
import os
import platform
import sys
from pathlib import Path

LOCKS = Path(".snakemake/locks")
MARKS = Path(".snakemake/incomplete")
PRESENCE = Path(".snakemake/goldenprof/presence")  # holds the host of the run that was last alone here

_held: list[int] = []  # open until this process ends


def join() -> None:
    """Be counted as a run in this folder until this process ends; first clear up after dead ones if no other is here.

    Locks of another host's run stay: whether its lock can be seen from here depends on the file system.
    """
    try:
        PRESENCE.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(PRESENCE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return  # a folder that cannot be written: Snakemake says so itself
    _held.append(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _last_host(descriptor) in (platform.node(), ""):
            _clear_up()
    except OSError:
        pass  # another run is here
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _last_host(descriptor: int) -> str:
    """Who was here last; from now on it is this host."""
    found = os.pread(descriptor, 1000, 0).decode(errors="replace")
    own = platform.node()
    if found != own:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, own.encode(), 0)
    return found


def _clear_up() -> None:
    locks = list(LOCKS.glob("*.lock"))
    for path in locks:
        path.unlink(missing_ok=True)
    for mark in [path for path in MARKS.glob("**/*") if path.is_file()]:
        _make_again(_marked(mark))
        mark.unlink(missing_ok=True)
    if locks:
        print("A run in this folder was killed before its end; its locks were removed.", file=sys.stderr)


def _marked(mark: Path) -> Path:
    """The file that a mark is of: its name in base64, in several folders when it is long."""
    encoded = "".join(part.removeprefix("@") for part in mark.relative_to(MARKS).parts)
    try:
        return Path(base64.urlsafe_b64decode(encoded).decode())
    except ValueError:
        return Path()


def _make_again(path: Path) -> None:
    """Remove what is cheap to make, since Snakemake may not have noted with which code it was made.

    What was drawn or measured stays: a file is written whole under another name and then renamed, and its key says
    what it depends on.
    """
    cheap = path.name in ("output.json", "perf.json") or path.parts[:1] == ("reports",)
    if cheap and ".." not in path.parts:
        path.unlink(missing_ok=True)
