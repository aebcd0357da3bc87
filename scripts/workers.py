"""Processes that do the cheap steps of cases: the threads of one Python take turns, and would hold up the scheduling.

python -P -m scripts.workers DESCRIPTOR      one of them; it ends with the process that started it
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection
from multiprocessing.connection import Connection
from pathlib import Path

from scripts.devices import visible
from scripts.devices.identity import cpu_count, usable_cores
from scripts.errors import CaseFailure, GoldenprofError
from scripts.plan import PlannedCase
from scripts.status import Status
from scripts.warm import launch

MOST = 4  # more wait for the process that schedules
ADVICE = "The machine may be out of memory: see the kernel's log, then run it again."


class _NotTaken(CaseFailure):
    """The worker ended before it took what it was asked for, which is innocent unless that happens again."""


class _Worker:
    """One such process, which does one step at a time; it starts on `cores`."""

    def __init__(self, cores: Collection[int]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, visible.on_cores(cores):
            self._process = subprocess.Popen(
                launch.command("scripts.workers", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # an interrupt is not for it
                env=launch.environment(),
            )
            self._connection = Connection(ours.detach())

    @property
    def lives(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    @property
    def end(self) -> str:
        """How it ended."""
        code = self._process.wait()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended itself with exit code {code}"
        return f"the process that did it {how}"

    def do(self, step: str, planned: PlannedCase, cores: Collection[int], log: str) -> BaseException | None:
        """What the step raised. Raises _NotTaken or CaseFailure when the process died before it, or over it."""
        taken = False
        try:
            self._connection.send((step, planned, cores, log))
            taken = self._connection.recv()
            return self._connection.recv()
        except (EOFError, OSError):
            self._connection.close()
            kind = CaseFailure if taken else _NotTaken
            raise kind(Status.INCOMPLETE, f"{step} of {planned.case.id}: {self.end}.", ADVICE) from None


class Workers:
    """As many as are asked at a time, but no more than `most`."""

    def __init__(self, most: int) -> None:
        self._turns = threading.Semaphore(most)
        self._idle: list[_Worker] = []

    def do(self, step: str, planned: PlannedCase, log: str, cores: Collection[int] = ()) -> None:
        """Have a step of scripts/case_steps.py done on `cores`, all usable ones by default.

        Raises what it raises; CaseFailure when its process died over it, or for a fault that the step does not expect;
        OSError when no process can be started.
        """
        cores = frozenset(cores) or usable_cores()
        with self._turns:
            try:
                error = self._ask(self._free(cores), step, planned, cores, log)
            except _NotTaken:
                error = self._ask(_Worker(cores), step, planned, cores, log)
        if error is not None:
            raise error

    def _free(self, cores: Collection[int]) -> _Worker:
        while self._idle:
            if (worker := self._idle.pop()).lives:
                return worker
        return _Worker(cores)

    def _ask(
        self, worker: _Worker, step: str, planned: PlannedCase, cores: Collection[int], log: str
    ) -> BaseException | None:
        error = worker.do(step, planned, cores, log)
        self._idle.append(worker)
        return error


def _serve(connection: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to all of a job: who asked decides, and its end is this one's
    while True:
        try:
            step, planned, cores, log = connection.recv()
            connection.send(True)  # taken
            connection.send(_outcome(step, planned, cores, log))
        except (EOFError, OSError):
            return  # nobody asks any more


def _outcome(step: str, planned: PlannedCase, cores: Collection[int], log: str) -> BaseException | None:
    from scripts import failures, freshness  # not where work is only asked for, and case_steps takes half a second

    try:
        visible.keep_on(cores)
        freshness.read_code()  # before it is imported: what this process makes is stamped with the code that it has
        from scripts import case_steps

        case_steps.do(step, planned, log)
    except GoldenprofError as error:
        return error
    except Exception as error:
        return failures.of_error(step, planned, error, Path(log))
    return None


ours = Workers(min(cpu_count(), MOST))

if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
