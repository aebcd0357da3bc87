"""One line of the performance table: two sides measured in the same run, and the ratio that is promised."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """`ours` against `reference`, in the same unit."""

    what: str
    ours: float
    reference: float
    unit: str
    limit: float
    at_least: bool = (
        False  # the ratio is reference / ours and must reach `limit`; else ours / reference must not pass it
    )

    @property
    def ratio(self) -> float:
        """How many times faster (`at_least`) or slower."""
        return self.reference / self.ours if self.at_least else self.ours / self.reference

    @property
    def holds(self) -> bool:
        """Whether the promise is kept."""
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit

    def cells(self) -> list[str]:
        """As a row of the table."""
        sign, sides = "≥" if self.at_least else "≤", (self.ours, self.reference)
        figures = [f"{value:.3g} {self.unit}" if value < 1000 else f"{value:,.0f} {self.unit}" for value in sides]
        return [self.what, *figures, f"{self.ratio:.2f}", f"{sign} {self.limit:g}", "yes" if self.holds else "**no**"]


def fastest(work: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of several calls."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time, user and system, of the processes that `work` starts and waits for.

    Steadier than wall time where other work shares the machine.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
