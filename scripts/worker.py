"""One of the processes that do what needs neither torch nor a device; it ends with the process that started it.

python -P -m scripts.worker DESCRIPTOR      of the socket in which work comes (scripts/workers.py)
"""

from __future__ import annotations

import importlib
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from scripts import freshness, handout
from scripts.devices import visible
from scripts.errors import GoldenprofError
from scripts.handout import Room
from scripts.plan import PlannedCase

READY = "ready"  # the first message


@dataclass(frozen=True)
class Work:
    """A step of a case, or a page about several: what scripts/{case,page}_steps.py call so, with its log."""

    step: str
    cases: tuple[PlannedCase, ...]
    log: str

    @property
    def what(self) -> str:
        """For messages: `parse_csv of operator/case`, or the page's rule."""
        return f"{self.step} of {self.cases[0].case.id}" if self.step in freshness.STEPS else self.step

    @property
    def room(self) -> Room:
        """Where it may run, and disturb no measurement."""
        return handout.room_for(self.cases)


def shut(connection: Connection) -> None:
    """Both sides see its end, also a thread that waits in it."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def _serve(connection: Connection) -> None:
    """Do what comes until nobody asks any more."""
    try:
        connection.send(READY)
        while True:
            connection.send(_result(*connection.recv()))
    except (EOFError, OSError):
        pass
    finally:
        shut(connection)


def _result(work: Work, room: Room) -> BaseException | str:
    from scripts import failures  # not where work is only asked for

    try:
        with room.enter() as cores:
            visible.keep_on(cores)
            return _steps(work.step).do(work.step, work.cases, work.log)
    except GoldenprofError as error:
        return error
    except Exception as error:
        return failures.of_error(work.what, error, Path(work.log))


def _steps(step: str) -> ModuleType:
    """Half a second when first asked for, and so only where there is room."""
    return importlib.import_module("scripts.case_steps" if step in freshness.STEPS else "scripts.page_steps")


def _main(descriptor: int) -> None:
    """Serve in a thread, and end when nobody asks any more, whatever it does or waits for: files are written whole."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to all of a job: who asked decides, and its end is this one's
    freshness.read_code()  # before the steps are imported: what they make is stamped with the code that they have
    threading.Thread(target=_serve, args=[Connection(descriptor)], daemon=True).start()
    end = select.poll()
    end.register(descriptor, select.POLLRDHUP)
    end.poll()
    os._exit(0)  # no lock is held a moment longer


if __name__ == "__main__":
    _main(int(sys.argv[1]))
