"""Whether one series of times is shorter than another: a ratio with an interval, a verdict, and its reason.

Speed-up = median of the golden's times / median of the candidate's. Its 95 % interval is a percentile bootstrap of
that ratio (10,000 resamples, a fixed seed, so that the same samples always get the same verdict); paired samples, one
of each per round, are resampled by round, so that what drifts for both cancels out.

A verdict passes two gates. Statistical: the interval leaves out 1. Practical: the medians differ by more than the
threshold, 2 % by default. FASTER and SLOWER pass both; SAME means that the whole interval lies within the threshold;
everything else is UNDECIDED, with what is missing. Over many comparisons the false discovery rate is held at 5 %
(Benjamini and Hochberg), so that a long table does not fill with differences made by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

import numpy as np

from scripts.errors import ConfigError

RESAMPLES = 10_000
MOST_PICKED = 4_000_000  # samples picked at a time
CONFIDENCE = 0.95
PRACTICAL = 0.02
FEWEST = 6  # below, no interval of a median covers it with 95 %
SEED = 0


class Verdict(StrEnum):
    """What can be said of a candidate against a golden."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    UNDECIDED = "UNDECIDED"


@dataclass(frozen=True)
class Comparison:
    """A candidate's times against a golden's."""

    golden_us: float  # median
    candidate_us: float  # median
    speedup: float  # golden / candidate: above 1 the candidate is faster
    low: float  # 95 % interval of the speed-up
    high: float
    p: float  # of a ratio this far from 1 by chance, from the same resamples and the tail of their distribution
    verdict: Verdict
    reason: str


def gate_of(percent: float) -> float:
    """The practical gate as a share, from `--gate` in percent."""
    if not 0 <= percent <= 100:
        raise ConfigError(f"--gate {percent:g} is no gate; give percent, from 0 to 100.")
    return percent / 100


def judge(
    golden_us: Sequence[Decimal | float],
    candidate_us: Sequence[Decimal | float],
    *,
    paired: bool,
    practical: float = PRACTICAL,
) -> Comparison:
    """Compare two series of times, microseconds; paired series have one sample each per round, in order."""
    golden, candidate = np.array(golden_us, np.float64), np.array(candidate_us, np.float64)
    if not len(golden) or not len(candidate) or min(golden.min(), candidate.min()) <= 0:
        raise ValueError("a comparison needs times above 0 on both sides")
    if paired and len(golden) != len(candidate):
        raise ValueError(f"paired series must be equally long, not {len(golden)} and {len(candidate)}")
    middle = float(np.median(golden)), float(np.median(candidate))
    ratios = _resampled_ratios(golden, candidate, paired)
    tail = (1 - CONFIDENCE) / 2
    low, high = (float(edge) for edge in np.quantile(ratios, (tail, 1 - tail)))
    p = _p(ratios, min(len(golden), len(candidate)))
    verdict, reason = _decide(middle[0] / middle[1], low, high, practical, min(len(golden), len(candidate)))
    return Comparison(*middle, middle[0] / middle[1], low, high, p, verdict, reason)


def together(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons with FASTER and SLOWER kept only where they hold for all of them at once."""
    if len(comparisons) < 2:
        return list(comparisons)
    from scipy.stats import false_discovery_control

    adjusted = false_discovery_control([comparison.p for comparison in comparisons])
    return [_kept(one, float(p), len(comparisons)) for one, p in zip(comparisons, adjusted, strict=True)]


def _kept(one: Comparison, p: float, count: int) -> Comparison:
    if one.verdict not in (Verdict.FASTER, Verdict.SLOWER) or p < 1 - CONFIDENCE:
        return one
    shown = math.ceil(1000 * p) / 1000  # rounded up, so that it is not seen below the limit
    reason = f"alone it would be {one.verdict}, but among {count} comparisons p = {shown:g} is not below 0.05"
    return replace(one, verdict=Verdict.UNDECIDED, reason=reason)


def _resampled_ratios(golden: np.ndarray, candidate: np.ndarray, paired: bool) -> np.ndarray:
    """RESAMPLES ratios of medians, in blocks, so that long series need no more memory than short ones."""
    generator = np.random.default_rng(SEED)
    rows = max(1, MOST_PICKED // max(len(golden), len(candidate)))
    blocks = []
    for done in range(0, RESAMPLES, rows):
        count = min(rows, RESAMPLES - done)
        picks = generator.integers(len(golden), size=(count, len(golden)))
        others = picks if paired else generator.integers(len(candidate), size=(count, len(candidate)))
        blocks.append(np.median(golden[picks], axis=1) / np.median(candidate[others], axis=1))
    return np.concatenate(blocks)


def _p(ratios: np.ndarray, samples: int) -> float:
    """The share of resamples beyond 1; where there are none, the tail of Student's t with their logarithms' spread.

    Resamples alone cannot tell a doubled time from one of 1 in 5,000, which would drown it among some hundred others.
    """
    smaller, larger = int((ratios <= 1).sum()), int((ratios >= 1).sum())
    p = min(1.0, 2 * (min(smaller, larger) + 1) / (len(ratios) + 1))
    if min(smaller, larger) or samples < FEWEST:
        return p
    from scipy.special import stdtr  # scipy.stats would cost a second of start-up

    logs = np.log(ratios)
    spread = float(logs.std())
    return min(p, 2 * float(stdtr(samples - 1, -abs(float(np.median(logs))) / spread))) if spread else 0.0


def _decide(speedup: float, low: float, high: float, practical: float, samples: int) -> tuple[Verdict, str]:
    interval = f"{low:.3f} … {high:.3f}"
    gate = f"{100 * practical:g} %"
    if samples < FEWEST:
        return Verdict.UNDECIDED, f"{samples} samples are too few for an interval; at least {FEWEST} are needed"
    within = 1 / (1 + practical) <= low and high <= 1 + practical
    if within:
        return Verdict.SAME, f"the whole interval {interval} lies within {gate}"
    if low > 1 and speedup > 1 + practical:
        return Verdict.FASTER, f"the interval {interval} lies above 1, and the medians differ by more than {gate}"
    if high < 1 and speedup < 1 / (1 + practical):
        return Verdict.SLOWER, f"the interval {interval} lies below 1, and the medians differ by more than {gate}"
    if low <= 1 <= high:
        return Verdict.UNDECIDED, f"the interval {interval} holds 1 and reaches beyond {gate}: measure more rounds"
    return Verdict.UNDECIDED, f"the interval {interval} leaves out 1, but the medians differ by less than {gate}"
