"""One lock per physical device, for all processes and users of the machine; it is free when its holder dies.

A lock is named like its device: "npu:0". "cpu:0-3" is a part of "cpu": parts that overlap exclude each other, and each
of them excludes the whole. The kernel keeps that book: a lock is a range of bytes of a file, one byte a core.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.errors import CaseFailure, GoldenprofError
from scripts.status import Status

PART = re.compile(r"(?P<whole>.+):(?P<first>\d+)-(?P<last>\d+)")
POLL_S = 0.03  # between two looks at several locks that are all held
LOOK_S = 0.2  # between two looks of a thread that waits, at whether it still should
_held: set[int] = set()
_given_up = threading.Event()


class Interrupted(GoldenprofError):
    """This process was told to end while it waited for a lock or an answer."""

    def __init__(self) -> None:
        super().__init__("The run was interrupted.")


def give_up() -> None:
    """Have every thread but the main one that waits for a lock, now or later, raise Interrupted within LOOK_S."""
    _given_up.set()


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
    Who waits for it alone is not overtaken by ever new sharers: all pass a gate, and it is shut meanwhile. Raises
    Interrupted after `give_up`.
    """
    with hold_one([name], shared=shared, waiting=waiting):
        yield


@contextmanager
def hold_one(
    names: Sequence[str], *, shared: bool = False, waiting: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """Hold one of the locks `names`, the first that is free, and yield its name; else as `hold`."""
    entries: list[_Entry] = []
    try:
        for name in names:
            entries.append(_Entry.open(name))
        taken = _acquire(entries, shared, waiting)
        for entry in entries:
            entry.leave(all_of_it=entry is not taken)
        own = os.fstat(taken.descriptor)
        yield taken.name
        taken.let_go(own)
    finally:
        for entry in entries:
            entry.leave(all_of_it=True)


@dataclass
class _Entry:
    """A lock's file and its gate's, open: descriptors, -1 when closed; and which of their bytes are meant."""

    name: str
    first: int
    count: int  # bytes; 0 is all of them
    gate: int
    descriptor: int
    inside: bool = False  # whether the gate is held

    @classmethod
    def open(cls, name: str) -> _Entry:
        part = PART.fullmatch(name)
        first = int(part["first"]) if part else 0
        count = int(part["last"]) - first + 1 if part else 0
        file = part["whole"] if part else name
        gate = _open(f"{file}-gate")
        try:
            return cls(name, first, count, gate, _open(file))
        except OSError:
            _close(gate)
            raise

    def take(self, shared: bool, wait: bool = False) -> bool:
        """Pass the gate and take the lock; False when one of them is not free, and the gate is kept if it was."""
        self.inside = self.inside or self._lock(self.gate, shared, wait)
        return self.inside and self._lock(self.descriptor, shared, wait)

    def _lock(self, descriptor: int, shared: bool, wait: bool) -> bool:
        """A lock of the open file, not of the process: two holders in one process are two."""
        command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
        try:
            fcntl.fcntl(descriptor, command, self._range(fcntl.F_RDLCK if shared else fcntl.F_WRLCK))
        except (BlockingIOError, PermissionError):  # EAGAIN or EACCES, as the system likes
            return False
        return True

    def _range(self, kind: int) -> bytes:
        return struct.pack("hhqqi4x", kind, os.SEEK_SET, self.first, self.count, 0)  # struct flock

    def let_go(self, own: os.stat_result) -> None:
        """Unlock. Only the process itself can have lost its lock: by closing a descriptor that it does not know."""
        try:
            if os.path.samestat(own, os.fstat(self.descriptor)):
                fcntl.fcntl(self.descriptor, fcntl.F_OFD_SETLK, self._range(fcntl.F_UNLCK))
                return
        except OSError:
            pass
        raise CaseFailure(
            Status.GOLDEN_FAILED,
            f"The lock of {self.name} was lost in the middle of the measurement, since the golden closed a file "
            "descriptor of its process that it had not opened; another process may have used the device meanwhile.",
            "Let the golden close only what it opens (`os.closerange` and the like have no place in it).",
        )

    def leave(self, all_of_it: bool) -> None:
        """Close the gate and, with `all_of_it`, the lock."""
        _close(self.gate)
        self.gate = -1
        if all_of_it:
            _close(self.descriptor)
            self.descriptor = -1


def _acquire(entries: Sequence[_Entry], shared: bool, waiting: Callable[[], None]) -> _Entry:
    """The kernel can wait for one lock; of several, whichever is free first is found by looking."""
    told = False
    while True:
        for entry in entries:
            if entry.take(shared):
                return entry
        if not told:
            waiting()
            told = True
        if _given_up.is_set():
            raise Interrupted
        if len(entries) == 1:
            _wait(entries[0], shared)
        else:
            time.sleep(POLL_S)


def _wait(entry: _Entry, shared: bool) -> None:
    """Have the kernel wait, in turn with others, until the lock is held or `give_up` was called.

    A signal wakes the main thread alone, so for any other a thread waits that the process's end does not wait for.
    """
    if threading.current_thread() is threading.main_thread():
        entry.take(shared, wait=True)
        return

    def take() -> None:
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile, or what the next look will raise
            entry.take(shared, wait=True)

    waiter = threading.Thread(target=take, daemon=True)
    waiter.start()
    while waiter.is_alive() and not _given_up.is_set():
        waiter.join(LOOK_S)


def _open(name: str) -> int:
    folder = lock_folder()
    try:
        folder.mkdir(mode=0o1777)
        folder.chmod(0o1777)  # mkdir's mode is cut by the umask
    except FileExistsError:
        pass
    path = folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', name)}.lock"
    descriptor = _open_or_make(path)
    _held.add(descriptor)
    try:
        os.fchmod(descriptor, 0o666)
    except PermissionError:
        pass  # another user made it, with this mode
    return descriptor


def _open_or_make(path: Path) -> int:
    """Open what is there without O_CREAT: with it, the kernel can refuse another user's file (fs.protected_regular)."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):  # another process was faster
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)


def _close(descriptor: int) -> None:
    if descriptor < 0:
        return
    _held.discard(descriptor)
    try:
        os.close(descriptor)
    except OSError:
        pass  # whoever closed it has given the lock away
