"""The steps of a case that need neither torch nor a device: each reads files of the case's folder and writes one.

Worker processes do them (scripts/workers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts import artifacts, failures, freshness, locate_output, parse_csv, report
from scripts.plan import PlannedCase


def do(step: str, cases: Sequence[PlannedCase], log: str) -> str:
    """Do `step` of the one case; nothing to say. Raises CaseFailure and the other errors of the step."""
    (planned,) = cases
    Path(log).unlink(missing_ok=True)
    failures.clear(planned)  # first: after a kill, no earlier failure stands beside a good result
    STEPS[step](planned)
    planned.link_latest()
    return ""


def _locate_output(planned: PlannedCase) -> None:
    _record("locate_output", planned, locate_output.locate)


def _parse_csv(planned: PlannedCase) -> None:
    _record("parse_csv", planned, parse_csv.parse)


def _report(planned: PlannedCase) -> None:
    stamp = freshness.page_stamp("report", freshness.with_peaks([planned]))
    report.run(planned.folder / "perf.json", planned.report, freshness.tail(stamp), planned.config)


def _record(step: str, planned: PlannedCase, make: Callable[[Path], Any]) -> None:
    stamp = freshness.stamp(step, planned)  # before: what changes meanwhile is stale
    record = make(planned.folder)
    record.stamp = str(stamp)
    artifacts.write(planned.folder / freshness.OUTPUTS[step], record)


STEPS: dict[str, Callable[[PlannedCase], None]] = {
    "locate_output": _locate_output,
    "parse_csv": _parse_csv,
    "report": _report,
}
