"""What a forked child does: one step of one case, its output in the case's log, its result down a pipe."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from scripts import artifacts, handout, key, machine, make_inputs, measure_peaks, profile
from scripts.devices import identity, visible
from scripts.errors import ArtifactError, CaseFailure, GoldenprofError
from scripts.plan import ROOT, PlannedCase
from scripts.status import Status
from scripts.warm import protocol
from scripts.warm.protocol import Message

PR_SET_PDEATHSIG = 1
LONGEST_TEXT = 50_000  # characters of a message: an exception may hold a whole tensor; the log has all of it
MADE = {"make_inputs": ("inputs.json",), "profile": ("profile.json", profile.COLLECTED)}


def run(
    step: str,
    planned: PlannedCase,
    output: int,
    pipe: int,
    environment: dict[str, str],
    unchecked: Collection[str] = (),
) -> NoReturn:
    """Do the step, printing into `output`, tell `pipe` how it ended, and end the process.

    `unchecked` are the devices of `planned` that this run has not used yet. Nothing of the parent's state but its
    imports is used. The golden may have closed or replaced anything that is used after it: no way leads back from here.
    """
    try:
        _detach(output, environment)

        def tell(message: Message) -> None:
            try:
                os.write(pipe, protocol.encode(replace(message, text=message.text[:LONGEST_TEXT])))
            except OSError as error:
                _say(f"The result cannot be told, because the golden closed a descriptor of its process: {error}")
                os._exit(1)

        tell(_result(step, planned, lambda phase: tell(Message("phase", phase)), unchecked))
        os._exit(0)
    finally:
        os._exit(1)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when `parent` ends, which may have happened already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _detach(output: int, environment: dict[str, str]) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(output)
    os.close(null)
    # New objects: the golden's prints and the native code's writes then share one log in the order they were made.
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=sys.stderr)
    faulthandler.register(protocol.SAY_WHERE, file=sys.stderr)  # even where the interpreter is held
    _die_first()


def _die_first() -> None:
    """Of all processes, the one that a golden has filled with tensors is to be killed when memory runs out."""
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass  # not every container allows it


def _say(text: str) -> None:
    """Write a line into the log, after what the golden has printed, whatever the golden made of its streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    try:
        os.write(2, f"{text}\n".encode(errors="replace"))
    except OSError:
        pass


def _result(step: str, planned: PlannedCase, phase: Callable[[str], None], unchecked: Collection[str] = ()) -> Message:
    started = time.monotonic()
    _say(f"{step} of {planned.case.id}, key {planned.key}")
    roots = (Path.cwd(), ROOT)
    golden, folder = Path(planned.case.golden).resolve(), planned.folder.resolve()  # a golden may change the directory
    then = ""
    try:
        if step in ("make_inputs", "peaks"):  # profile looks itself, at the device that it is handed
            _check_machine(planned)
        if step == "make_inputs":
            with handout.room_beside(planned.key, planned.devices).enter() as cores, visible.on_cores(cores):
                phase("running")
                make_inputs.run(planned.case, planned.key, planned.folder, roots, planned.device)
            _check_code(step, planned, golden, folder, roots)
        elif step == "peaks":
            measure_peaks.run(planned.device, planned.target, phase, planned.devices, unchecked)
        elif step == "profile":
            to_analyse = profile.collect(planned.folder, roots, phase, None, planned.devices, unchecked)
            then = "analyse" if to_analyse else ""
            _check_code(step, planned, golden, folder, roots)
        elif step == "analyse":
            profile.analyse(planned.folder, phase)
        elif step == "probe":
            _probe(planned, phase)
        else:
            raise ValueError(f"there is no step {step!r}")
    except CaseFailure as failure:
        _say("".join(traceback.format_exception(failure.__cause__ or failure)))  # ends in the golden, if that raised
        return Message("result", failure.message, failure.status, failure.advice)
    except ArtifactError as error:
        _say(traceback.format_exc())
        return Message("result", artifacts.set_aside(error), Status.PROFILER_FAILED, "The log has the whole traceback.")
    except (GoldenprofError, OSError, MemoryError) as error:
        _say(traceback.format_exc())
        return Message(
            "result", f"{type(error).__name__}: {error}", Status.PROFILER_FAILED, "The log has the whole traceback."
        )
    except BaseException as error:  # SystemExit, KeyboardInterrupt of the golden, or a fault of this program
        _say(traceback.format_exc())
        return Message(
            "result",
            f"{step} ended with {type(error).__name__}: {error}",
            _blame(error),
            "The log has the whole traceback.",
        )
    _say(f"{step} took {time.monotonic() - started:.3f} s")
    return Message("result", status=Status.OK, then=then)


def _probe(planned: PlannedCase, phase: Callable[[str], None]) -> None:
    """Take the doctor's small operator through the steps on the device of `planned`: does it still give kernels."""
    from scripts import doctor_probe

    folder = planned.folder.resolve() / "probe"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o750)
    try:
        _say(doctor_probe.describe(doctor_probe.measure(planned.device, folder, phase)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_machine(planned: PlannedCase) -> None:
    """Write nothing under the key of a device that was planned for, maybe elsewhere, and is not what is here."""
    found = identity.resolve(planned.device)
    if found.problem and not planned.problem:
        raise CaseFailure(Status.DEVICE_UNAVAILABLE, found.problem, handout.ADVICE)
    if not found.problem:
        machine.check_key(planned.key, found)


def _check_code(step: str, planned: PlannedCase, golden: Path, folder: Path, roots: tuple[Path, ...]) -> None:
    """Take back what was made if the code was edited since the key was: its folder would hold another code's result."""
    if key.case_digest(planned.case, golden, roots) == key.digest_of(planned.key):
        return
    for name in MADE[step]:
        (folder / name).unlink(missing_ok=True)
    raise CaseFailure(
        Status.INCOMPLETE,
        f"{planned.case.golden} or a module that it imports was edited while {planned.case.id} was in its step {step}.",
        "Run the workflow again: it plans for the code as it is now.",
    )


def _blame(error: BaseException) -> Status:
    return Status.GOLDEN_FAILED if isinstance(error, SystemExit | KeyboardInterrupt) else Status.PROFILER_FAILED
