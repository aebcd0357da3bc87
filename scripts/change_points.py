"""Where a series of nights changes its level: E-divisive, for the history view.

Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate data", JASA 109 (2014):
the split with the largest energy statistic between its two sides, kept when permuted series seldom reach it, then the
same on either side. It sees a whole history at once and so finds smaller steps than a night's verdict, but later:
it needs MIN_NIGHTS on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MIN_NIGHTS = 3  # fewer nights after a change would call every odd night one
MIN_CHANGE = 0.02  # of the level before: the verdicts' practical gate
PERMUTATIONS = 199
SIGNIFICANCE = 0.01


def find(values_us: Sequence[float]) -> list[int]:
    """Indices of the first night at a new level, ascending; `values_us` are positive durations in time's order.

    Deterministic: the permutations are drawn from a fixed seed.
    """
    values = np.asarray(values_us, dtype=float)
    if values.size and not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError("change points need positive, finite durations")
    logs = np.log(values)  # a level is a factor: +5 % weighs the same at 10 us and at 10 ms
    return sorted(_split(logs, 0, np.random.default_rng(0)))


def _split(logs: np.ndarray, start: int, random: np.random.Generator) -> list[int]:
    if len(logs) < 2 * MIN_NIGHTS:
        return []
    distances = np.abs(logs[:, None] - logs[None, :])
    at, statistic = strongest_split(distances)
    change = abs(float(np.expm1(np.median(logs[at:]) - np.median(logs[:at]))))
    if change < MIN_CHANGE or not _significant(distances, statistic, random):
        return []
    return [start + at, *_split(logs[:at], start, random), *_split(logs[at:], start + at, random)]


def strongest_split(distances: np.ndarray) -> tuple[int, float]:
    """The split (index of its right side's first point) with the largest energy statistic, and that statistic.

    `distances` is the symmetric (n, n) matrix of |x_i - x_j|. All splits come from one table of prefix sums: O(n^2).
    """
    n = len(distances)
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = distances.cumsum(0).cumsum(1)
    left = np.arange(MIN_NIGHTS, n - MIN_NIGHTS + 1)
    right = n - left
    within_left = sums[left, left]
    between = sums[left, n] - within_left
    within_right = sums[n, n] - within_left - 2 * between
    energy = (
        2 * between / (left * right)
        - within_left / (left * np.maximum(left - 1, 1))
        - within_right / (right * np.maximum(right - 1, 1))
    )
    statistics = left * right / n * energy
    best = int(np.argmax(statistics))
    return int(left[best]), float(statistics[best])


def _significant(distances: np.ndarray, statistic: float, random: np.random.Generator) -> bool:
    allowed = int(SIGNIFICANCE * (PERMUTATIONS + 1)) - 1  # (reached + 1) / (PERMUTATIONS + 1) <= SIGNIFICANCE
    reached = 0
    for _ in range(PERMUTATIONS):
        order = random.permutation(len(distances))
        reached += strongest_split(distances[np.ix_(order, order)])[1] >= statistic
        if reached > allowed:
            return False
    return True
