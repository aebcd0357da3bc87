"""Statistics are exact, keep every sample, and say nothing about series too short for it."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from scripts.statistics import plain, spread, spread_of_ps

SAMPLES = st.lists(st.decimals(min_value=0, max_value=10**9, places=6), min_size=1, max_size=40)


def decimals(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


@given(SAMPLES)
@settings(max_examples=100, deadline=None)
def test_median_extremes_and_quartiles_agree_with_numpy(samples: list[Decimal]) -> None:
    found = spread(samples)
    assert found.median_us == median(samples)
    assert (found.min_us, found.max_us, found.n) == (min(samples), max(samples), len(samples))
    q1, q3 = np.quantile(np.array(samples, np.float64), [0.25, 0.75])
    assert float(found.iqr_us) == pytest.approx(q3 - q1, rel=1e-9, abs=1e-6)


@given(SAMPLES)
@settings(max_examples=100, deadline=None)
def test_an_array_of_picoseconds_has_the_same_spread(samples: list[Decimal]) -> None:
    ps = np.array([int(sample.scaleb(6)) for sample in samples], np.int64)
    assert spread_of_ps(ps) == spread(samples)


@given(SAMPLES)
@settings(max_examples=100, deadline=None)
def test_the_interval_holds_the_median_and_lies_within_the_range(samples: list[Decimal]) -> None:
    found = spread(samples)
    if found.n < 3:
        assert found.median_low_us is None
        assert found.median_high_us is None
    else:
        assert found.min_us <= found.median_low_us <= found.median_us <= found.median_high_us <= found.max_us


def test_sums_that_a_float_would_round_are_exact() -> None:
    found = spread(decimals("0.1", "0.2", "0.30000001", "1736408883704643.212"))
    assert found.median_us == Decimal("0.250000005")
    assert found.max_us == Decimal("1736408883704643.212")


@pytest.mark.parametrize("n", [6, 7, 9, 10, 20, 100, 1001])
def test_the_interval_from_six_on_covers_95_percent_and_no_narrower_pair_does(n: int) -> None:
    found = spread([Decimal(k) for k in range(1, n + 1)])
    rank = int(found.median_low_us)
    assert found.median_high_us == n + 1 - rank
    assert 1 - 2 * binom.cdf(rank - 1, n, 0.5) >= 0.95
    assert 1 - 2 * binom.cdf(rank, n, 0.5) < 0.95


@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_interval_below_six_is_that_of_the_percentile_bootstrap(n: int) -> None:
    values = [2**k for k in range(n)]
    medians = sorted(median(resample) for resample in product(values, repeat=n))
    low, high = medians[int(0.025 * len(medians))], medians[int(0.975 * len(medians))]
    found = spread([Decimal(value) for value in values])
    assert (found.median_low_us, found.median_high_us) == (low, high)


def test_outliers_are_counted_and_kept() -> None:
    found = spread(decimals("10", "10.1", "10.2", "10.3", "10.4", "99", "0.5"))
    assert found.outliers == 2
    assert (found.n, found.min_us, found.max_us) == (7, Decimal("0.5"), Decimal(99))


def test_a_sample_on_the_fence_is_no_outlier() -> None:
    # quartiles 1 and 3: the upper fence is 6
    assert spread(decimals("0", "1", "2", "3", "6")).outliers == 0
    assert spread(decimals("0", "1", "2", "3", "6.000001")).outliers == 1


def test_equal_samples_have_no_spread() -> None:
    found = spread(decimals("5", "5", "5"))
    assert (found.iqr_us, found.relative_iqr, found.outliers) == (0, 0.0, 0)


def test_one_sample_is_its_own_median() -> None:
    found = spread(decimals("245.3"))
    assert (found.median_us, found.iqr_us, found.median_low_us) == (Decimal("245.3"), 0, None)


def test_zeros_have_a_relative_spread_of_zero() -> None:
    assert spread(decimals("0", "0", "0")).relative_iqr == 0.0


def test_no_samples_have_no_spread() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        spread([])


@pytest.mark.parametrize(("value", "text"), [("1.500", "1.5"), ("1E+2", "100"), ("0.000", "0"), ("245.3", "245.3")])
def test_numbers_are_written_without_padding_or_exponent(value: str, text: str) -> None:
    assert str(plain(Decimal(value))) == text
