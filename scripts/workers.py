"""Having what needs neither torch nor a device done by processes (scripts/worker.py).

The threads of one Python take turns, and would hold up the scheduling.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from scripts.devices import visible
from scripts.devices.identity import cpu_count
from scripts.errors import CaseFailure
from scripts.handout import Room
from scripts.locks import Interrupted
from scripts.plan import PlannedCase
from scripts.status import Status
from scripts.warm import launch
from scripts.worker import Work, shut

MOST = 4  # more wait for the process that schedules
MOST_LOST = 2  # workers that die over one piece of work
START_TIMEOUT_S = 60.0
LOG = Path(".snakemake/goldenprof/workers.log")  # what they print besides


class _Worker:
    """One such process, which does one piece of work at a time. It starts on `cores`."""

    def __init__(self, cores: Collection[int]) -> None:
        LOG.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = socket.socketpair()
        with ours, theirs, visible.on_cores(cores), LOG.open("ab") as log:
            self._process = subprocess.Popen(
                launch.command("scripts.worker", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # an interrupt is not for it
                env=launch.environment(),
            )
            self._connection = Connection(ours.detach())

    @property
    def lives(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Raises _Lost when it ends or does not answer."""
        with suppress(EOFError, OSError):
            if self._connection.poll(START_TIMEOUT_S):
                self._connection.recv()
                return
        self._process.kill()
        self._connection.close()
        raise _Lost(self)

    def do(self, work: Work, room: Room) -> BaseException | str:
        """What the step gave or raised; _Lost when it ends, or `hang_up` is called, before it says so."""
        try:
            self._connection.send((work, room))
            return self._connection.recv()
        except (EOFError, OSError):
            self._connection.close()
            raise _Lost(self) from None

    def hang_up(self) -> None:
        """Have `do` raise _Lost; the worker ends."""
        shut(self._connection)

    def failure(self, what: str) -> CaseFailure:
        """That `what` failed by its end."""
        code = self._process.wait()
        if code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
            advice = "The machine may be out of memory: see the kernel's log, then run it again."
        else:
            how, advice = f"ended itself with exit code {code}", f"Its log is {LOG}."
        return CaseFailure(Status.INCOMPLETE, f"{what}: the process that did it {how}.", advice)


class _Lost(Exception):
    """`worker` did not answer before its side was closed."""

    def __init__(self, worker: _Worker) -> None:
        super().__init__()
        self.worker = worker


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
        """Have all that is asked for, now or later, raise Interrupted, and all workers end."""
        self._hung_up = True
        for worker in (*self._busy, *self._idle):
            worker.hang_up()

    def _ask(self, work: Work, room: Room) -> BaseException | str:
        for _ in range(MOST_LOST):
            self._check_interrupt()
            try:
                worker = self._free() or self._started(room)
                with self._watched(worker):
                    result = worker.do(work, room)
                self._idle.append(worker)
                return result
            except _Lost as error:
                lost = error.worker
        self._check_interrupt()
        return lost.failure(work.what)

    def _started(self, room: Room) -> _Worker:
        with room.enter() as cores, self._watched(_Worker(cores)) as worker:  # starting is work, too
            worker.wait_until_ready()
        return worker

    @contextmanager
    def _watched(self, worker: _Worker) -> Iterator[_Worker]:
        """Either `hang_up` sees the worker, or this that it was called."""
        self._busy.add(worker)
        try:
            self._check_interrupt()
            yield worker
        finally:
            self._busy.discard(worker)

    def _check_interrupt(self) -> None:
        if self._hung_up:
            raise Interrupted

    def _free(self) -> _Worker | None:
        with suppress(IndexError):  # another thread may take the last one
            while True:
                if (worker := self._idle.pop()).lives:
                    return worker
        return None


ours = Workers(min(cpu_count(), MOST))
