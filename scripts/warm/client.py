"""A job's command: have one step of one case done by the warm parent, and end with its exit code.

    python -I -S scripts/warm/client.py STEP --plan FILE --case OPERATOR/CASE --log FILE

Starts the warm parent of this session where there is none. Standard library only, so that a job costs no imports.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scripts.warm import protocol  # noqa: E402
from scripts.warm.protocol import Answer, Request  # noqa: E402

MOST_DEATHS = 2  # of the warm parent, over one job
MOST_MISSED = 20  # requests that no warm parent has read
START_TIMEOUT_S = 30.0  # until the warm parent listens, which it does before it imports torch
SERVER_LOG = Path(".snakemake/goldenprof/warm.log")


def main() -> int:
    """Ask, wait, print, and end with the step's exit code."""
    request = _arguments()
    deaths = missed = 0
    while deaths < MOST_DEATHS and missed < MOST_MISSED:
        answer, heard = _ask(request)
        if answer is not None:
            if answer.text:
                print(answer.text, file=sys.stderr)
            return answer.exit_code
        deaths += heard
        missed += not heard
        time.sleep(0.05)
    return _record_lost_parent(request)


def _arguments() -> Request:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["make_inputs", "profile", "peaks"])
    parser.add_argument("--plan", required=True)
    parser.add_argument("--case", required=True)
    parser.add_argument("--log", required=True)
    options = parser.parse_args()
    return Request(options.step, options.plan, options.case, options.log)


def _ask(request: Request) -> tuple[Answer | None, bool]:
    """The warm parent's answer, None when it died before it gave one; and whether it had heard the request at all.

    A child that was just forked holds its parent's listener for a moment, and nobody listens when the parent has died.
    """
    line, heard = b"", False
    try:
        with _connect() as connection:
            connection.sendall(protocol.encode(request))
            with connection.makefile("rb") as lines:
                heard = lines.readline() == protocol.HEARD
                line = lines.readline()
    except ConnectionError:
        pass
    return (Answer(**json.loads(line)) if line.endswith(b"\n") else None), heard


def _connect() -> socket.socket:
    session = protocol.session()
    path = protocol.socket_path(session)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of many jobs that start at once, one starts the parent
        connection = _try_connect(path)
        if connection is None:
            path.unlink(missing_ok=True)
            _start(session)
            connection = _wait_for(path)
        return connection


def _try_connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    return connection


def _start(session: str) -> None:
    SERVER_LOG.parent.mkdir(parents=True, exist_ok=True)
    with SERVER_LOG.open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "scripts.warm.server", session],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
            },
        )


def _wait_for(path: Path) -> socket.socket:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if (connection := _try_connect(path)) is not None:
            return connection
        time.sleep(0.02)
    raise SystemExit(f"The warm parent did not start within {START_TIMEOUT_S:.0f} s; its log is {SERVER_LOG}.")


def _record_lost_parent(request: Request) -> int:
    """The parent died twice over this case: say so where the summary looks."""
    command = [sys.executable, "-m", "scripts.failures", request.step, request.plan, request.case, request.log]
    return subprocess.run(command, cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode


if __name__ == "__main__":
    sys.exit(main())
