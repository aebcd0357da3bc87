"""Verdicts: what passes both gates, what does not, and what chance makes of many comparisons."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from scripts.errors import ConfigError
from scripts.speedup import Comparison, Verdict, gate_of, judge, together


def series(median: float, spread: float, n: int = 40, seed: int = 1) -> list[float]:
    return list(median * (1 + spread * np.random.default_rng(seed).standard_normal(n)))


@pytest.mark.parametrize(
    ("candidate", "spread", "verdict"),
    [
        (50.0, 0.01, Verdict.FASTER),
        (200.0, 0.01, Verdict.SLOWER),
        (100.0, 0.005, Verdict.SAME),
        (97.0, 0.2, Verdict.UNDECIDED),
    ],
)
def test_verdict_of_a_clear_case(candidate: float, spread: float, verdict: Verdict) -> None:
    found = judge(series(100, spread), series(candidate, spread, seed=2), paired=False)
    assert found.verdict is verdict, found.reason
    assert found.low <= found.speedup <= found.high
    assert found.speedup == pytest.approx(found.golden_us / found.candidate_us)


def test_a_real_difference_below_the_practical_gate_is_no_faster() -> None:
    found = judge(series(100, 1e-4), series(99, 1e-4, seed=2), paired=False)
    assert (found.verdict, found.low > 1) == (Verdict.SAME, True)
    assert judge(series(100, 1e-4), series(99, 1e-4, seed=2), paired=False, practical=0.005).verdict is Verdict.FASTER


def test_few_samples_decide_nothing() -> None:
    found = judge([100.0] * 5, [1.0] * 5, paired=True)
    assert found.verdict is Verdict.UNDECIDED
    assert "5 samples are too few" in found.reason


def test_pairing_cancels_what_drifts_for_both() -> None:
    drift = np.linspace(1, 2, 60)
    golden, candidate = list(100 * drift), list(95 * drift)
    assert judge(golden, candidate, paired=True).verdict is Verdict.FASTER
    assert judge(golden, candidate, paired=False).verdict is Verdict.UNDECIDED


def test_the_same_samples_always_get_the_same_verdict() -> None:
    a, b = series(100, 0.1), series(97, 0.1, seed=2)
    assert judge(a, b, paired=False) == judge(a, b, paired=False)


def test_long_series_need_no_more_memory_than_short_ones() -> None:
    tracemalloc.start()
    assert judge(series(100, 0.1, n=4_000), series(90, 0.1, n=4_000, seed=2), paired=False).low > 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6  # all resamples at once would be more than a GB


def test_false_verdicts_are_rare_when_nothing_differs() -> None:
    generator = np.random.default_rng(3)
    verdicts = []
    for _ in range(200):
        a, b = 100 * (1 + 0.05 * generator.standard_normal((2, 30)))
        verdicts.append(judge(list(a), list(b), paired=True).verdict)
    false = sum(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts)
    assert false <= 0.1 * len(verdicts)


def test_many_comparisons_do_not_fill_with_differences_made_by_chance() -> None:
    lucky = Comparison(100, 95, 100 / 95, 1.001, 1.1, 0.04, Verdict.FASTER, "")
    clear = Comparison(100, 50, 2.0, 1.9, 2.1, 1e-4, Verdict.FASTER, "")
    nothing = [Comparison(100, 100, 1.0, 0.9, 1.1, 0.7, Verdict.UNDECIDED, "")] * 18
    assert together([lucky])[0].verdict is Verdict.FASTER
    found = together([lucky, clear, *nothing])
    assert [one.verdict for one in found[:2]] == [Verdict.UNDECIDED, Verdict.FASTER]
    assert "alone it would be FASTER, but among 20 comparisons" in found[0].reason


def test_a_doubled_time_is_not_lost_among_hundreds_of_others() -> None:
    generator = np.random.default_rng(0)
    sides = 100 * (1 + 0.01 * generator.standard_normal((301, 2, 10)))
    sides[-1, 1] *= 2
    found = together([judge(list(a), list(b), paired=False) for a, b in sides])
    assert found[-1].verdict is Verdict.SLOWER
    assert not {Verdict.FASTER, Verdict.SLOWER} & {one.verdict for one in found[:-1]}


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([0.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_series_that_cannot_be_compared_are_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError):
        judge(a, b, paired=True)


@pytest.mark.parametrize("p", [0.0500001, 0.0524, 0.9])
def test_a_p_that_is_too_large_is_never_shown_below_the_limit(p: float) -> None:
    faster = Comparison(2.0, 1.0, 2.0, 1.9, 2.1, p, Verdict.FASTER, "")
    reason = together([faster, faster])[0].reason
    assert float(reason.partition("p = ")[2].split()[0]) >= p
    assert reason.endswith("is not below 0.05")


@pytest.mark.parametrize("percent", [-1, 101, float("nan"), float("inf")])
def test_a_gate_is_a_share(percent: float) -> None:
    assert gate_of(2) == 0.02
    with pytest.raises(ConfigError, match=r"--gate .* from 0 to 100"):
        gate_of(percent)
