"""One lock per physical device, for all processes and users of the machine; it is free when its holder dies."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts import key
from scripts.errors import CaseFailure
from scripts.status import Status

_held: set[int] = set()


def _drop_all() -> None:
    """A forked child shares its parent's lock: close it there, or a child that outlives the parent keeps the device."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_drop_all)


def lock_folder() -> Path:
    """Folder of the lock files; GOLDENPROF_LOCK_DIR overrides it."""
    return Path(os.environ.get("GOLDENPROF_LOCK_DIR") or Path(tempfile.gettempdir(), "goldenprof-locks"))


@contextmanager
def hold(name: str, *, shared: bool = False, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock `name`; `waiting` is called once when another process has it.

    Any number of holders may share it with `shared`; without, there is one. A child that the holder forks loses it.
    Who waits for it alone is not overtaken by ever new sharers: all pass a gate, and it is shut meanwhile.
    """
    descriptor = _open(name)
    _held.add(descriptor)
    try:
        _acquire(name, descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, waiting)
        own = os.fstat(descriptor)
        yield
        _let_go(name, descriptor, own)
    finally:
        _held.discard(descriptor)
        try:
            os.close(descriptor)
        except OSError:
            pass  # whoever closed it has given the lock away


def _acquire(name: str, descriptor: int, mode: int, waiting: Callable[[], None]) -> None:
    gate = _open(f"{name}-gate")
    _held.add(gate)
    try:
        try:
            fcntl.flock(gate, mode | fcntl.LOCK_NB)
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(gate, mode)
            fcntl.flock(descriptor, mode)
    finally:
        _held.discard(gate)
        os.close(gate)


def _let_go(name: str, descriptor: int, own: os.stat_result) -> None:
    """Unlock. Only the process itself can have lost its lock: by closing a descriptor that it does not know."""
    try:
        if os.path.samestat(own, os.fstat(descriptor)):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return
    except OSError:
        pass
    raise CaseFailure(
        Status.GOLDEN_FAILED,
        f"The lock of {name} was lost in the middle of the measurement, since the golden closed a file descriptor of "
        "its process that it had not opened; another process may have used the device meanwhile.",
        "Let the golden close only what it opens (`os.closerange` and the like have no place in it).",
    )


@contextmanager
def beside_measuring(name: str) -> Iterator[None]:
    """Heavy work for a case, in the key folder `name`, that must not run while the CPU measures; others are apart."""
    if key.kind_of(name) != "cpu":
        yield
        return
    with hold("cpu", shared=True):
        yield


def _open(name: str) -> int:
    folder = lock_folder()
    try:
        folder.mkdir(mode=0o1777)
        folder.chmod(0o1777)  # mkdir's mode is cut by the umask
    except FileExistsError:
        pass
    path = folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', name)}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        os.fchmod(descriptor, 0o666)
    except PermissionError:
        pass  # another user made it, with this mode
    return descriptor
