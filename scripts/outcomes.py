"""What became of a case, read from its folder: the one answer that the list, the summary, the page and nights give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts import artifacts
from scripts.artifacts import FailureRecord, PerfRecord
from scripts.errors import ArtifactError
from scripts.formatting import one_line

NOT_RUN = "not_run"  # no step of the case has ended yet
UNREADABLE = "unreadable"  # its result is there and cannot be read


@dataclass(frozen=True)
class CaseOutcome:
    """How a case ended. Of `failure` and `perf` at most one is there: none where it did not end, or is unreadable."""

    status: str  # a Status, NOT_RUN or UNREADABLE
    reason: str = ""  # in one line, why there is no result
    failure: FailureRecord | None = None
    perf: PerfRecord | None = None


def read(folder: Path) -> CaseOutcome:
    """The outcome of the case in `folder`. A failure counts before an older result: success removes it."""
    try:
        if (path := folder / "failure.json").exists():
            failure = artifacts.read(path, FailureRecord)
            return CaseOutcome(str(failure.status), one_line(failure.message), failure=failure)
        if (path := folder / "perf.json").exists():
            perf = artifacts.read(path, PerfRecord)
            return CaseOutcome(str(perf.status), perf=perf)
    except ArtifactError as error:
        return CaseOutcome(UNREADABLE, one_line(error))
    return CaseOutcome(NOT_RUN, "No result yet: its turn had not come, or the run was interrupted.")


def ended(folder: Path) -> bool:
    """Whether the case in `folder` has had its turn, whatever it came to."""
    return any((folder / name).exists() for name in ("perf.json", "failure.json"))
