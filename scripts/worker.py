"""One of the processes that do what needs neither torch nor a device; it ends with the process that started it.

python -P -m scripts.worker DESCRIPTOR      of the socket in which work comes (scripts/workers.py)
"""

from __future__ import annotations

import importlib
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType

from scripts import freshness, locks
from scripts.devices import visible
from scripts.errors import GoldenprofError
from scripts.handout import Room
from scripts.workers import Work, shut


def _serve(connection: Connection) -> None:
    """Do what comes until nobody asks any more."""
    try:
        connection.send("ready")
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
    """Serve in a thread, for which this one watches: who waits for room does not see that nobody asks any more."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to all of a job: who asked decides, and its end is this one's
    freshness.read_code()  # before it is imported: what this process makes is stamped with the code that it has
    threading.Thread(target=_serve, args=[Connection(descriptor)]).start()
    end = select.poll()
    end.register(descriptor, select.POLLRDHUP)
    end.poll()
    locks.give_up()


if __name__ == "__main__":
    _main(int(sys.argv[1]))
