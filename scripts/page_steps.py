"""The pages about several cases. Worker processes make them (scripts/workers.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from scripts import freshness, operator_report, summary, sweep_page
from scripts.plan import PlannedCase


def do(step: str, cases: Sequence[PlannedCase], log: str) -> str:
    """Make a page of `cases`; what the terminal is to show. Raises GoldenprofError, and OSError of the file system."""
    Path(log).unlink(missing_ok=True)
    return STEPS[step](cases)


def _operator_report(cases: Sequence[PlannedCase]) -> str:
    stamp = freshness.page_stamp("operator_report", freshness.with_peaks(cases))
    operator_report.write(cases, freshness.tail(stamp))
    return ""


def _summary(cases: Sequence[PlannedCase]) -> str:
    stamp = freshness.page_stamp("summary", *freshness.sweep_sources(cases))
    summary.write(cases, freshness.tail(stamp))
    return ""


def _page(cases: Sequence[PlannedCase]) -> str:
    stamp = freshness.page_stamp("page", *freshness.sweep_sources(cases))
    return sweep_page.write(cases, freshness.tail(stamp))


STEPS: dict[str, Callable[[Sequence[PlannedCase]], str]] = {
    "operator_report": _operator_report,
    "summary": _summary,
    "page": _page,
}
