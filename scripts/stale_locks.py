"""The locks that a killed run has left in this folder: the next run removes them once it is sure that nobody is there.

Snakemake's locks are files that outlive their run when it is killed or the power fails, and do not say whose they are.
So every run holds a lock of the kernel's beside them, which ends with its process: who gets it for itself is alone.
"""

from __future__ import annotations

import fcntl
import os
import platform
import sys
from pathlib import Path

LOCKS = Path(".snakemake/locks")
PRESENCE = Path(".snakemake/goldenprof/presence")  # holds the host of the run that was last alone here

_held: list[int] = []  # open until this process ends


def join() -> None:
    """Be counted as a run in this folder until this process ends; first remove stale locks if no other run is here.

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
            _remove()
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


def _remove() -> None:
    stale = sorted(LOCKS.glob("*.lock"))
    for path in stale:
        path.unlink(missing_ok=True)
    if stale:
        print("A run in this folder was killed before its end; its locks were removed.", file=sys.stderr)
