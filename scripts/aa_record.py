"""aa.json, beside perf.json: how often this machine sees a difference where there is none, and which it can see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np

from scripts import speedup
from scripts.artifacts import DeviceInfo
from scripts.speedup import Verdict

IN_ONE_SESSION = "in turns in one session, host wall"
BETWEEN_RUNS = "two runs, device total"
# What is tried as a gate and as a change, as shares of 1.
STEPS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
TOLERATED = 0.05  # share of false verdicts
FEWEST_PAIRS = round(1 / TOLERATED)  # fewer pairs without a false verdict say too little about their share
SEEN = 0.8  # share of pairs in which a change must be found

Samples = Sequence[Decimal]


@dataclass
class AaSeries:
    """One way of running the same thing twice, many times."""

    what: str  # IN_ONE_SESSION or BETWEEN_RUNS
    pairs: int
    false: int  # verdicts FASTER or SLOWER at the usual gate, each of them wrong
    same: int
    undecided: int
    false_low: float  # 95 % interval of the share of false verdicts (Clopper and Pearson)
    false_high: float
    largest: float  # |speed-up - 1| of the worst pair
    quiet_gate: float | None  # the smallest gate of STEPS with at most TOLERATED false verdicts
    smallest_change: float | None  # the smallest of STEPS that is found at this gate in SEEN of the pairs


@dataclass
class AaRecord:
    """aa.json."""

    kind: ClassVar[str] = "aa"
    operator: str
    case: str
    key: str
    device: DeviceInfo
    measured_at: str  # ISO 8601 with offset
    rounds: int  # samples on each side of a pair
    gate: float
    load_1min: tuple[str, str]  # of the host, before and after
    series: list[AaSeries]

    @property
    def gate_between_runs(self) -> float | None:
        """The gate that two runs need; None when it was not measured, or no gate is quiet."""
        return next((one.quiet_gate for one in self.series if one.what == BETWEEN_RUNS), None)

    def lacks(self, iterations: int) -> str:
        """Why it is too little to go by for runs of so many iterations, "" when it is enough."""
        pairs = next((one.pairs for one in self.series if one.what == BETWEEN_RUNS), 0)
        if pairs < FEWEST_PAIRS:
            return f"its {pairs} pairs of runs cannot show {100 * TOLERATED:g} % of false verdicts, {FEWEST_PAIRS} can"
        if self.rounds < iterations:
            return f"its runs had {self.rounds} samples, these have {iterations} and so decide more"
        return ""


def series_of(what: str, pairs: Sequence[tuple[Samples, Samples]], gate: float, *, paired: bool) -> AaSeries:
    """Judge pairs of samples of the same thing, and what would be found if the second were slower.

    A slower second is made by scaling its samples: the noise is the real one, only the change is made up.
    """
    from scipy.stats import binomtest

    found = [speedup.judge(first, second, paired=paired, practical=gate) for first, second in pairs]
    counts = Counter(one.verdict for one in found)
    false = counts[Verdict.FASTER] + counts[Verdict.SLOWER]
    interval = binomtest(false, len(pairs)).proportion_ci(method="exact")
    quiet = next((step for step in STEPS if step >= gate and _false_share(pairs, step, paired) <= TOLERATED), None)
    return AaSeries(
        what=what,
        pairs=len(pairs),
        false=false,
        same=counts[Verdict.SAME],
        undecided=counts[Verdict.UNDECIDED],
        false_low=float(interval.low),
        false_high=float(interval.high),
        largest=max(abs(one.speedup - 1) for one in found),
        quiet_gate=quiet,
        smallest_change=None if quiet is None else _smallest_change(pairs, quiet, paired),
    )


def _false_share(pairs: Sequence[tuple[Samples, Samples]], gate: float, paired: bool) -> float:
    verdicts = [speedup.judge(a, b, paired=paired, practical=gate).verdict for a, b in pairs]
    return sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts) / len(pairs)


def _smallest_change(pairs: Sequence[tuple[Samples, Samples]], gate: float, paired: bool) -> float | None:
    return next((step for step in STEPS if step >= gate and _seen_share(pairs, step, gate, paired) >= SEEN), None)


def _seen_share(pairs: Sequence[tuple[Samples, Samples]], change: float, gate: float, paired: bool) -> float:
    slower = [(a, list(np.array(b, np.float64) * (1 + change))) for a, b in pairs]
    verdicts = [speedup.judge(a, b, paired=paired, practical=gate).verdict for a, b in slower]
    return verdicts.count(Verdict.SLOWER) / len(pairs)
