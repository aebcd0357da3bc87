"""Having what needs neither torch nor a device done by processes (scripts/worker.py).

The threads of one Python take turns, and would hold up the scheduling.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

from scripts import handout
from scripts.devices import visible
from scripts.devices.identity import cpu_count
from scripts.errors import CaseFailure
from scripts.freshness import STEPS
from scripts.handout import Room
from scripts.locks import Interrupted
from scripts.plan import PlannedCase
from scripts.status import Status
from scripts.warm import launch

MOST = 4  # more wait for the process that schedules
MOST_LOST = 2  # workers that die over one piece of work
ADVICE = "The machine may be out of memory: see the kernel's log, then run it again."


@dataclass(frozen=True)
class Work:
    """A step of a case, or a page about several: what scripts/{case,page}_steps.py call so, with its log."""

    step: str
    cases: tuple[PlannedCase, ...]
    log: str

    @property
    def what(self) -> str:
        """For messages: `parse_csv of operator/case`, or the page's rule."""
        return f"{self.step} of {self.cases[0].case.id}" if self.step in STEPS else self.step

    @property
    def room(self) -> Room:
        """Where it may run, and disturb no measurement."""
        return handout.room_beside(self.cases[0].key, self.cases[0].devices)


class _Lost(Exception):
    """The worker's side was closed before it answered."""


def shut(connection: Connection) -> None:
    """Both sides see its end, also a thread that waits in it."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


class _Worker:
    """One such process, which does one piece of work at a time."""

    def __init__(self, cores: Collection[int]) -> None:
        """Start it on `cores`, and wait until it is ready."""
        ours, theirs = socket.socketpair()
        with ours, theirs, visible.on_cores(cores):
            self._process = subprocess.Popen(
                launch.command("scripts.worker", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # an interrupt is not for it
                env=launch.environment(),
            )
            self._connection = Connection(ours.detach())
        with suppress(EOFError, OSError):  # the next to ask it will see
            self._connection.recv()

    @property
    def lives(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def do(self, work: Work, room: Room) -> BaseException | str:
        """What the step gave or raised; _Lost when it ends, or `hang_up` is called, before it says so."""
        try:
            self._connection.send((work, room))
            return self._connection.recv()
        except (EOFError, OSError):
            self._connection.close()
            raise _Lost from None

    def hang_up(self) -> None:
        """Have `do` raise _Lost; the worker ends when it has done what it does, at once if it waits for room."""
        shut(self._connection)

    @property
    def end(self) -> str:
        """How it ended."""
        code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended itself with exit code {code}"
        return f"the process that did it {how}"


class Workers:
    """As many as are asked at a time, but no more than `most`."""

    def __init__(self, most: int) -> None:
        self._turns = threading.Semaphore(most)
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._hung_up = False

    def do(self, step: str, cases: Sequence[PlannedCase], log: str) -> str:
        """Have a step done where no measurement is disturbed; what it has to say to the user.

        Raises what it raises; CaseFailure when MOST_LOST processes died over it, or for a fault that the step does not
        expect; OSError when no process can be started; Interrupted after `hang_up`.
        """
        work = Work(step, tuple(cases), log)
        with self._turns:
            result = self._ask(work, work.room)
        if isinstance(result, BaseException):
            raise result
        return result

    def hang_up(self) -> None:
        """Have all that is asked for, now or later, raise Interrupted."""
        self._hung_up = True
        for worker in tuple(self._busy):
            worker.hang_up()

    def _ask(self, work: Work, room: Room) -> BaseException | str:
        for _ in range(MOST_LOST):
            worker = self._free() or self._start(room)
            self._busy.add(worker)
            try:
                self._check_interrupt()
                result = worker.do(work, room)
                self._idle.append(worker)
                return result
            except _Lost:
                self._check_interrupt()
            finally:
                self._busy.discard(worker)
        return CaseFailure(Status.INCOMPLETE, f"{work.what}: {worker.end}.", ADVICE)

    def _check_interrupt(self) -> None:
        if self._hung_up:
            raise Interrupted("The run was interrupted.")

    def _free(self) -> _Worker | None:
        while self._idle:
            if (worker := self._idle.pop()).lives:
                return worker
        return None

    def _start(self, room: Room) -> _Worker:
        with room.enter() as cores:
            return _Worker(cores)


ours = Workers(min(cpu_count(), MOST))
