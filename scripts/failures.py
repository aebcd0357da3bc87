"""failure.json: how a case that did not end `ok` is remembered, and shown where the user looks."""

from __future__ import annotations

import errno
import traceback
from contextlib import suppress
from pathlib import Path

from scripts import artifacts, diagnosis
from scripts.artifacts import FailureRecord
from scripts.errors import ArtifactError, CaseFailure, GoldenprofError
from scripts.plan import CACHE, PlannedCase
from scripts.report_files import companions, operator_page
from scripts.status import Status

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EFBIG)


def path(planned: PlannedCase) -> Path:
    """failure.json in the case's folder."""
    return planned.folder / "failure.json"


def write(planned: PlannedCase, step: str, failure: CaseFailure, log: Path) -> str:
    """Remember why a step of a case failed; returns the diagnosis, which is also appended to the step's log."""
    record = FailureRecord(
        operator=planned.case.operator,
        case=planned.case.case,
        key=planned.key,
        step=step,
        status=failure.status,
        message=_encodable(failure.message),
        advice=_encodable(failure.advice),
        log=str(log),
        command=planned.command,
    )
    artifacts.write(path(planned), record)
    _remove_reports(planned)
    text = diagnosis.text(record)
    _append(log, text)
    return text


def of_error(what: str, error: Exception, log: Path) -> CaseFailure:
    """What an exception means for what raised it, as "parse_csv of a/b"; the frames of a fault go into `log`."""
    if isinstance(error, CaseFailure):
        return error
    if isinstance(error, ArtifactError):
        return CaseFailure(Status.INCOMPLETE, artifacts.set_aside(error), "Run it again.")
    if isinstance(error, GoldenprofError):
        return CaseFailure(Status.INCOMPLETE, str(error))
    sentence = f"{what} ended with {type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in NO_ROOM):
        advice = "Make room for it (disk, memory, open files), then run it again."
        return CaseFailure(Status.INCOMPLETE, sentence, advice)
    if isinstance(error, OSError):
        return CaseFailure(Status.INCOMPLETE, sentence, "Put right what it names, then run it again.")
    with suppress(OSError):
        _append(log, "".join(traceback.format_exception(error)))
    return CaseFailure(Status.INCOMPLETE, sentence, "That is a fault of this program; the log has the whole traceback.")


def _remove_reports(planned: PlannedCase) -> None:
    """Take away the case's report and its operator's, which show an older result. A night's cases have no reports."""
    if planned.root == CACHE:
        for shown in (planned.report, *companions(operator_page(planned.case.operator))):
            shown.unlink(missing_ok=True)


def _append(log: Path, text: str) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8", errors="replace") as file:
        file.write(text + "\n")


def _encodable(text: str) -> str:
    """`text` with halves of surrogate pairs written out: an exception may hold bytes that are no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def clear(planned: PlannedCase) -> None:
    """Forget an earlier failure: the step has now succeeded."""
    path(planned).unlink(missing_ok=True)


def of_lost_parent(step: str, case: str) -> CaseFailure:
    """What it means for a case that the warm parent died over it."""
    return CaseFailure(
        Status.PROFILER_FAILED,
        f"The warm parent process died twice while {case} was in its step {step}.",
        "See .snakemake/goldenprof/warm.log and the kernel's log: the machine may be out of memory.",
    )
