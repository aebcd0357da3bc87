"""The messages between a job, the warm parent and its children: one JSON object a line."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import signal
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.errors import GoldenprofError

SESSION_VARIABLE = "GOLDENPROF_SESSION"
HEARD = b"\n"  # what a warm parent says as soon as it has read a request; the answer follows
SAY_WHERE = signal.SIGUSR1  # to a child that is late: write the stack of every thread into the log
LONGEST_PLACE = 60  # characters: the address of a unix socket has room for 107 in all


class Unreachable(GoldenprofError):
    """There is no warm parent to ask, and why."""


@dataclass(frozen=True)
class Request:
    """A job asks for one step of one case."""

    step: str  # "make_inputs", "profile" or "peaks"
    plan: str  # path of the saved plan
    case: str  # "<operator>/<case>"
    log: str


@dataclass(frozen=True)
class Answer:
    """How it ended: the job's exit code and what it prints."""

    exit_code: int
    text: str


@dataclass(frozen=True)
class Message:
    """What a child tells its parent: a phase it enters, or its result."""

    kind: str  # "phase" or "result"
    text: str = ""  # the phase, or the message of a failure
    status: str = ""
    advice: str = ""
    then: str = ""  # the step that another child is to do when this one has ended


def encode(message: Request | Answer | Message) -> bytes:
    """One line."""
    return json.dumps(asdict(message)).encode() + b"\n"


def session() -> str:
    """Who the warm parent works for, `<host>:<pid>`: see `begin_session`.

    Raises Unreachable when the session has ended: nobody waits for what would be done.
    """
    own = f"{platform.node()}:"
    found = os.environ.get(SESSION_VARIABLE, "")
    if not found.startswith(own):
        return f"{own}{os.getpid()}"
    if not _alive(found[len(own) :]):
        raise Unreachable("The workflow that asked for this job has ended; the job ends with it.")
    return found


def begin_session(own_parent: bool = False) -> None:
    """Make this process the one that a warm parent works for, unless a living process above it already is.

    With `own_parent` in any case: a job's processes end with the job, a warm parent with them, whoever else asked it.
    """
    own = f"{platform.node()}:"
    found = os.environ.get(SESSION_VARIABLE, "")
    if own_parent or not (found.startswith(own) and _alive(found[len(own) :])):
        os.environ[SESSION_VARIABLE] = f"{own}{os.getpid()}"


def session_pid(name: str) -> int:
    """The process id in a session's name."""
    return int(name.rpartition(":")[2])


def _alive(pid: str) -> bool:
    return pid.isdigit() and Path("/proc", pid).exists()


def socket_path(name: str) -> Path:
    """Where the warm parent of a session listens: in a folder that only this user can enter.

    Containers that share the folder count their processes each for itself, and a session can work in several folders,
    whose files a parent knows by relative paths: a session's pid alone is no name.
    """
    place = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.path.isdir(place):  # as on a cluster's node, which has the variable from where its job was submitted
        place = tempfile.gettempdir()
    apart = zlib.crc32(f"{platform.node()} {os.readlink('/proc/self/ns/pid')} {os.getcwd()}".encode())
    folder = Path(place if len(place) <= LONGEST_PLACE else "/tmp", f"goldenprof-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise Unreachable(f"{folder} must belong to you alone (mode 0700): remove it and run again.")
    return folder / f"{session_pid(name)}-{apart:08x}.sock"


@contextmanager
def alone_at(path: Path) -> Iterator[None]:
    """While a session's warm parent is started, or its socket `path` removed: nobody else does either, in any session.

    The lock's file stays: who waits for it may have it open already, and would hold another than who comes later.
    """
    with path.with_name("start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
