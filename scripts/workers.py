"""Processes that do the cheap steps of cases: the threads of one Python take turns, and would hold up the scheduling.

python -P -m scripts.workers DESCRIPTOR      one of them; it ends with the process that started it
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from scripts.devices.identity import cpu_count
from scripts.errors import CaseFailure, GoldenprofError
from scripts.plan import PlannedCase
from scripts.status import Status

ROOT = Path(__file__).resolve().parents[1]
MOST = 4  # more wait for the process that schedules


class _Worker:
    """One such process, which does one step at a time."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "scripts.workers", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # an interrupt is not for it
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
                },
            )
        self._connection = Connection(ours.detach())

    def do(self, step: str, planned: PlannedCase, log: str) -> BaseException | None:
        """What the step raised. Raises CaseFailure when the process died over it."""
        try:
            self._connection.send((step, planned, log))
            return self._connection.recv()
        except (EOFError, OSError):
            self._connection.close()
            raise CaseFailure(
                Status.INCOMPLETE, f"{step} of {planned.case.id}: {_ended(self._process)}.", ADVICE
            ) from None


ADVICE = "The machine may be out of memory: see the kernel's log, then run it again."


class Workers:
    """As many as are asked at a time, but no more than `most`."""

    def __init__(self, most: int) -> None:
        self._turns = threading.Semaphore(most)
        self._idle: list[_Worker] = []

    def do(self, step: str, planned: PlannedCase, log: str) -> None:
        """Have a step of scripts/case_steps.py done; raises what it raises."""
        with self._turns:
            worker = self._idle.pop() if self._idle else _Worker()
            error = worker.do(step, planned, log)
            self._idle.append(worker)
        if error is not None:
            raise error


def _ended(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended itself with exit code {code}"
    return f"the process that did it {how}"


def _serve(connection: Connection) -> None:
    while True:
        try:
            step, planned, log = connection.recv()
            connection.send(_outcome(step, planned, log))
        except (EOFError, OSError):
            return  # nobody asks any more


def _outcome(step: str, planned: PlannedCase, log: str) -> BaseException | None:
    from scripts import case_steps  # not where work is only asked for: it takes half a second

    try:
        case_steps.do(step, planned, log)
    except GoldenprofError as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())
    return None


ours = Workers(min(cpu_count(), MOST))

if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
