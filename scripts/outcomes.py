"""What became of a case, read from its folder: the one answer that the list, the summary, the page and nights give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts import artifacts, freshness
from scripts.artifacts import FailureRecord, PerfRecord
from scripts.errors import ArtifactError
from scripts.formatting import one_line
from scripts.plan import PlannedCase

NOT_RUN = "not_run"  # no step of the case has ended yet
UNREADABLE = "unreadable"  # its result is there and cannot be read

RECORDS: dict[str, type[FailureRecord | PerfRecord]] = {"failure.json": FailureRecord, "perf.json": PerfRecord}


@dataclass(frozen=True)
class CaseOutcome:
    """How a case ended. Of `failure` and `perf` at most one is there: none where it did not end, or is unreadable."""

    status: str  # a Status, NOT_RUN or UNREADABLE
    reason: str = ""  # in one line, why there is no result
    failure: FailureRecord | None = None
    perf: PerfRecord | None = None


def of(planned: PlannedCase) -> CaseOutcome:
    """The outcome of a planned case; a result that is not up to date is none: this run has not come to it."""
    found = read(planned.folder)
    if found.perf and (stale := freshness.of_case(planned)).step:
        return CaseOutcome(NOT_RUN, f"Its result is out of date ({stale.why}), and its turn had not come.")
    return found


def read(folder: Path) -> CaseOutcome:
    """The outcome of the case in `folder`. A failure counts before an older result: an attempt removes it."""
    unreadable = ""
    for name, record in RECORDS.items():
        if (path := folder / name).exists():
            try:
                return _outcome(artifacts.read(path, record))
            except ArtifactError as error:  # a failure that cannot be read says nothing against a result
                unreadable = one_line(error)
    if unreadable:
        return CaseOutcome(UNREADABLE, unreadable)
    return CaseOutcome(NOT_RUN, "No result yet: its turn had not come, or the run was interrupted.")


def _outcome(record: FailureRecord | PerfRecord) -> CaseOutcome:
    if isinstance(record, FailureRecord):
        return CaseOutcome(str(record.status), one_line(record.message), failure=record)
    return CaseOutcome(str(record.status), perf=record)


def ended(folder: Path) -> bool:
    """Whether the case in `folder` has had its turn, whatever it came to."""
    return any((folder / name).exists() for name in ("perf.json", "failure.json"))
