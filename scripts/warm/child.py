"""What a forked child does: one step of one case, its output in the case's log, its result down a pipe."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from scripts import make_inputs, measure_peaks, profile
from scripts.errors import CaseFailure, GoldenprofError
from scripts.plan import ROOT, PlannedCase
from scripts.status import Status
from scripts.warm import protocol
from scripts.warm.protocol import Message

PR_SET_PDEATHSIG = 1


def run(step: str, planned: PlannedCase, log: Path, pipe: int, environment: dict[str, str]) -> None:
    """Do the step and end the process; nothing of the parent's state but its imports is used."""
    _detach(log, environment, fresh=step != "analyse")

    def tell(message: Message) -> None:
        os.write(pipe, protocol.encode(message))

    try:
        tell(_result(step, planned, lambda phase: tell(Message("phase", phase))))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _detach(log: Path, environment: dict[str, str], fresh: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if fresh else 0), 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (descriptor, 1), (descriptor, 2)):
        os.dup2(source, target)
    os.close(descriptor)
    os.close(null)
    # New objects: the golden's prints and the native code's writes then share one file in the order they were made.
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=sys.stderr)


def _result(step: str, planned: PlannedCase, phase: Callable[[str], None]) -> Message:
    started = time.monotonic()
    print(f"{step} of {planned.case.id}, key {planned.key}", flush=True)
    roots = (ROOT, Path.cwd())
    then = ""
    try:
        if step == "make_inputs":
            phase("running")
            make_inputs.run(planned.case, planned.key, planned.folder, roots)
        elif step == "peaks":
            measure_peaks.run(planned.case.settings.device, planned.target, phase)
        elif step == "profile":
            then = "analyse" if profile.collect(planned.folder, roots, phase) else ""
        else:
            profile.analyse(planned.folder, phase)
    except CaseFailure as failure:
        traceback.print_exc()
        return Message("result", failure.message, failure.status, failure.advice)
    except (GoldenprofError, OSError, MemoryError) as error:
        traceback.print_exc()
        return Message(
            "result", f"{type(error).__name__}: {error}", Status.PROFILER_FAILED, "The log has the whole traceback."
        )
    except BaseException as error:  # SystemExit, KeyboardInterrupt of the golden, or a fault of this program
        traceback.print_exc()
        return Message(
            "result",
            f"{step} ended with {type(error).__name__}: {error}",
            _blame(error),
            "The log has the whole traceback.",
        )
    print(f"{step} took {time.monotonic() - started:.3f} s", flush=True)
    return Message("result", status=Status.OK, then=then)


def _blame(error: BaseException) -> Status:
    return Status.GOLDEN_FAILED if isinstance(error, SystemExit | KeyboardInterrupt) else Status.PROFILER_FAILED
