"""Robust statistics of one series of durations: exact arithmetic, every sample kept.

Quartiles are linear (Hyndman and Fan's type 7, numpy's default). The 95 % interval of the median is the pair of order
statistics x(r), x(n+1-r), with the largest r that still covers the true median with 95 %, whatever the distribution.
Such a pair exists from six samples on. For three to five the interval is the whole range: that is what the percentile
bootstrap comes to there (a resample's median is the smallest sample with probability 0.26, 0.051 and 0.058, above the
2.5 % tail), and it covers the median with only 75, 87.5 and 93.75 %. One or two samples say nothing: no interval.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache

import numpy as np

from scripts.artifacts import Spread

CONFIDENCE = 0.95
ORDER_STATISTICS_FROM = 6  # 1 - 2 * 0.5**6 = 0.969 is the first above 95 %; below, the range is all there is


def spread(samples: Sequence[Decimal]) -> Spread:
    """Spread of `samples`, microseconds, at least one; exact for any number of decimals."""
    if not samples:
        raise ValueError("a spread needs at least one sample")
    scale = max(-int(sample.as_tuple().exponent) for sample in samples)
    return _spread(sorted(int(sample.scaleb(scale)) for sample in samples), Decimal(1).scaleb(-scale))


def spread_of_ps(samples: np.ndarray) -> Spread:
    """Spread of an int64 array of picoseconds; for series of many samples."""
    return _spread(np.sort(samples), Decimal("0.000001"))


def _spread(ordered: Sequence[int] | np.ndarray, unit: Decimal) -> Spread:
    """Works on eighths of `unit`, in which quartiles and fences are integers."""
    n = len(ordered)
    q1, median, q3 = (_quantile_in_eighths(ordered, quarter) for quarter in (1, 2, 3))
    iqr = q3 - q1
    below = bisect_left(ordered, -(-(q1 - 3 * iqr // 2) // 8))  # iqr is even: quartiles are whole quarters
    above = n - bisect_right(ordered, (q3 + 3 * iqr // 2) // 8)
    low, high = _median_interval(ordered)
    eighth = unit / 8

    def us(eighths: int) -> Decimal:
        return plain(eighths * eighth)

    return Spread(
        n=n,
        median_us=us(median),
        min_us=us(8 * int(ordered[0])),
        max_us=us(8 * int(ordered[-1])),
        iqr_us=us(iqr),
        relative_iqr=iqr / median if median else 0.0,
        median_low_us=None if low is None else us(low),
        median_high_us=None if high is None else us(high),
        outliers=below + above,
    )


def _quantile_in_eighths(ordered: Sequence[int] | np.ndarray, quarter: int) -> int:
    index, rest = divmod((len(ordered) - 1) * quarter, 4)
    value = int(ordered[index])
    return 8 * value if rest == 0 else 8 * value + 2 * rest * (int(ordered[index + 1]) - value)


def _median_interval(ordered: Sequence[int] | np.ndarray) -> tuple[int | None, int | None]:
    n = len(ordered)
    if n < 3:
        return None, None
    rank = _order_statistic_rank(n) if n >= ORDER_STATISTICS_FROM else 1
    return 8 * int(ordered[rank - 1]), 8 * int(ordered[n - rank])


@lru_cache(maxsize=1024)
def _order_statistic_rank(n: int) -> int:
    """The largest r for which P(x(r) <= median <= x(n+1-r)) = 1 - 2 P(Bin(n, 1/2) < r) is at least CONFIDENCE."""
    from scipy.special import bdtr  # scipy.stats would cost a second of start-up

    centre = n / 2
    first = max(0, int(centre - 3 * n**0.5))  # six standard deviations below the mean
    below = np.arange(first, int(centre) + 1)
    fits = np.flatnonzero(2 * bdtr(below, n, 0.5) <= 1 - CONFIDENCE)
    return int(below[fits[-1]]) + 1


def plain(value: Decimal) -> Decimal:
    """`value` without padding zeros and without an exponent: 1.500 -> 1.5, 1E+2 -> 100."""
    return value.quantize(Decimal(1)) if value == value.to_integral_value() else value.normalize()
