"""Having one step of one case done by the warm parent of this session, which is started where there is none.

A thread that asks waits in a socket: a job costs no process but its case's own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from scripts import locks
from scripts.locks import Interrupted
from scripts.warm import launch, protocol
from scripts.warm.protocol import Answer, Request, Unreachable

MOST_DEATHS = 2  # of the warm parent, over one job
MOST_MISSED = 20  # requests that no warm parent has read
START_TIMEOUT_S = 30.0  # until the warm parent listens, which it does before it imports torch
SERVER_LOG = Path(".snakemake/goldenprof/warm.log")

_open: set[socket.socket] = set()  # of all threads
_hung_up = threading.Event()


def ask(request: Request) -> Answer | None:
    """How the step ended; None when the warm parent died over it, MOST_DEATHS times.

    Raises Unreachable when there can be no warm parent or none reads the request, Interrupted when this process was.
    """
    deaths = missed = 0
    while deaths < MOST_DEATHS and missed < MOST_MISSED:
        answer, heard = _ask(request)
        if answer is not None:
            return answer
        deaths += heard
        missed += not heard
        time.sleep(0.05)
    if deaths < MOST_DEATHS:
        raise Unreachable(f"{missed} warm parents ended before they had read a request; their log is {SERVER_LOG}.")
    return None


def hang_up_on_signals(*others: Callable[[], None]) -> None:
    """Have an interrupt (ctrl-C) or SIGTERM end at once what was asked for, then do what they did before.

    The warm parent ends the cases of who hangs up, no thread waits for a device's lock any more, and `others` hang up
    too. Without this, the threads that wait would keep the process until cases end. To be called in the main thread.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)

        def hang_up(number: int, frame: FrameType | None, before: Any = before) -> None:
            if not _hung_up.is_set():
                _hung_up.set()
                locks.give_up()
                for connection in tuple(_open):
                    _shut(connection)
                for other in others:
                    other()
            if callable(before):
                before(number, frame)
            else:
                signal.signal(number, before)
                os.kill(os.getpid(), number)

        signal.signal(number, hang_up)


def _ask(request: Request) -> tuple[Answer | None, bool]:
    """The warm parent's answer, None when it died before it gave one; and whether it had heard the request at all.

    A child that was just forked holds its parent's listener for a moment, and nobody listens when the parent has died.
    """
    line, heard = b"", False
    try:
        with _connection() as connection:
            connection.sendall(protocol.encode(request))
            with connection.makefile("rb") as lines:
                heard = lines.readline() == protocol.HEARD
                line = lines.readline()
    except ConnectionError:
        pass
    return (Answer(**json.loads(line)) if line.endswith(b"\n") else None), heard


@contextmanager
def _connection() -> Iterator[socket.socket]:
    with _connect() as connection:
        _open.add(connection)
        try:
            if _hung_up.is_set():
                _shut(connection)
            yield connection
        finally:
            _open.discard(connection)
            if _hung_up.is_set():
                raise Interrupted


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has just ended


def _connect() -> socket.socket:
    session = protocol.session()
    path = protocol.socket_path(session)
    with protocol.alone_at(path):  # of many jobs that start at once, one starts the parent
        if _hung_up.is_set():
            raise Interrupted
        connection = _try_connect(path)
        if connection is None:
            path.unlink(missing_ok=True)
            connection = _wait_for(path, _start(session))
        return connection


def _try_connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    return connection


def _start(session: str) -> subprocess.Popen[bytes]:
    SERVER_LOG.parent.mkdir(parents=True, exist_ok=True)
    with SERVER_LOG.open("ab") as log:
        return subprocess.Popen(
            launch.command("scripts.warm.server", session),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=launch.environment(),
        )


def _wait_for(path: Path, parent: subprocess.Popen[bytes]) -> socket.socket:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if _hung_up.is_set():
            raise Interrupted
        ended = parent.poll()
        if (connection := _try_connect(path)) is not None:
            return connection
        if ended is not None:
            raise Unreachable(f"The warm parent ended before it listened (exit code {ended}); its log is {SERVER_LOG}.")
        time.sleep(0.02)
    raise Unreachable(f"The warm parent did not start within {START_TIMEOUT_S:.0f} s; its log is {SERVER_LOG}.")
