"""Verdicts of nights: each word on the series that earns it, and the rates of error, simulated."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts import change_points
from scripts.verdicts import MIN_NIGHTS, Point, Verdict, judge

FIRST = datetime(2026, 6, 1, 2, tzinfo=UTC)
QUIET = [100.0, 100.4, 99.7, 100.1, 99.9, 100.3, 99.8, 100.2, 100.0, 99.6]


def night(i: int, value: float | None, again: float | None = None, identity: str = "a", **conditions: str) -> Point:
    return Point(f"night{i:02}", FIRST + timedelta(days=i), value, again, identity, tuple(conditions.items()))


def nights(values: Iterable[float | None]) -> list[Point]:
    return [night(i, value) for i, value in enumerate(values)]


def last(points: list[Point], **options: object) -> Verdict:
    return judge(points, **options)[-1].verdict  # type: ignore[arg-type]


def test_a_series_needs_seven_nights_before_it_is_judged() -> None:
    verdicts = [judgement.verdict for judgement in judge(nights(QUIET))]
    assert verdicts == [Verdict.NOT_ENOUGH_HISTORY] * MIN_NIGHTS + [Verdict.SAME] * 3


def test_one_slow_night_is_suspicious_and_forgotten_when_the_next_one_is_not() -> None:
    assert last(nights([*QUIET, 108])) is Verdict.SUSPICIOUS
    assert last(nights([*QUIET, 108, 100.1])) is Verdict.SAME


def test_two_slow_nights_in_a_row_are_a_regression_that_stays_one_until_it_is_gone() -> None:
    judged = judge(nights([*QUIET, 108, 107.5, *[107.8] * 40, 100]))
    assert judged[11].verdict is Verdict.REGRESSION
    assert judged[11].new
    assert "+7.5 %" in judged[11].detail
    assert {judgement.verdict for judgement in judged[11:-1]} == {Verdict.REGRESSION}
    assert [judgement.new for judgement in judged[12:]] == [False] * 41
    assert judged[-2].since == "night11"
    assert judged[-1].verdict is Verdict.SAME
    assert "Back at the baseline" in judged[-1].detail


def test_a_second_measurement_in_the_same_night_decides_at_once() -> None:
    before = nights(QUIET)
    assert last([*before, night(10, 108, again=107.9)]) is Verdict.REGRESSION
    assert judge([*before, night(10, 108, again=400)])[-1].change == pytest.approx(0.08, abs=1e-3)
    assert last([*before, night(10, 108, again=100.1)]) is Verdict.SAME
    assert last([*before, night(10, 92, again=92.2)]) is Verdict.IMPROVEMENT


def test_opposite_suspicions_confirm_nothing() -> None:
    assert last(nights([*QUIET, 108, 92])) is Verdict.SUSPICIOUS


def test_a_change_below_two_percent_is_no_news_however_quiet_the_series() -> None:
    assert last(nights([*[100.0] * 10, 101.9, 101.9])) is Verdict.SAME
    assert last(nights([*[100.0] * 10, 102.1, 102.1])) is Verdict.REGRESSION


def test_an_improvement_that_lasts_becomes_the_baseline() -> None:
    judged = judge(nights([*QUIET, *[90.0, 90.3, 89.8, 90.1, 89.9, 90.2, 90.0, 90.1, 90.2], 100, 100]))
    assert judged[11].verdict is Verdict.IMPROVEMENT
    assert judged[18].verdict is Verdict.SAME
    assert judged[-1].verdict is Verdict.REGRESSION


def test_a_noisy_series_says_what_it_could_see() -> None:
    noisy = [100.0, 130, 80, 110, 90, 125, 75, 105, 95, 120]
    judged = judge(nights(noisy))[-1]
    assert judged.verdict is Verdict.NOT_PRECISE_ENOUGH
    assert judged.smallest_change is not None
    assert judged.smallest_change > 0.3
    assert f"{judged.smallest_change:.0%}" in judged.detail


def test_a_median_that_is_slow_beside_fast_iterations_is_a_disturbance() -> None:
    before = [replace(point, fastest_us=95.0) for point in nights(QUIET)]
    disturbed = [replace(night(i, 150, again=160), fastest_us=95.5) for i in (10, 11)]
    judged = judge([*before, *disturbed])
    assert [judgement.verdict for judgement in judged[10:]] == [Verdict.NOT_PRECISE_ENOUGH] * 2
    assert "disturbed" in judged[10].detail
    assert last([*before, replace(night(10, 150, again=160), fastest_us=140.0)]) is Verdict.REGRESSION


def test_the_fastest_iteration_of_the_first_night_of_a_new_identity_counts() -> None:
    before = [replace(night(i, 100, identity="b" if i > 9 else "a"), fastest_us=95.0) for i in range(17)]
    assert last([*before, replace(night(17, 150, again=160, identity="b"), fastest_us=95.5)]) is (
        Verdict.NOT_PRECISE_ENOUGH
    )


def test_an_accepted_change_starts_the_baseline_anew() -> None:
    points = nights([*QUIET, *[108.0] * 12])
    judged = judge(points, accepted=[points[12].at])
    assert judged[11].verdict is Verdict.REGRESSION
    assert judged[12].verdict is Verdict.NOT_ENOUGH_HISTORY
    assert judged[-1].verdict is Verdict.SAME
    assert judged[-1].baseline_us == 108


def test_other_inputs_are_never_compared() -> None:
    changed = [*nights(QUIET), night(10, 200, identity="b"), *[night(i, 200, identity="b") for i in range(11, 20)]]
    verdicts = [judgement.verdict for judgement in judge(changed)]
    assert verdicts[10] is Verdict.CHANGED_IDENTITY
    assert verdicts[11:17] == [Verdict.NOT_ENOUGH_HISTORY] * 6
    assert verdicts[17] is Verdict.SAME


def test_inputs_that_change_by_themselves_are_called_out() -> None:
    before = [night(i, value, code="c1") for i, value in enumerate(QUIET)]
    assert "although neither" in judge([*before, night(10, 100, identity="b", code="c1")])[-1].detail
    assert "measured something else" in judge([*before, night(10, 100, identity="b", code="c2")])[-1].detail


def test_what_changed_with_a_regression_is_named() -> None:
    before = [night(i, value, torch="2.12.0", code="a1") for i, value in enumerate(QUIET)]
    judged = judge([*before, *(night(i, 108, torch="2.13.0", code="a1") for i in (10, 11))])
    assert judged[10].changed_conditions == "torch 2.12.0 → 2.13.0"
    assert judged[11].changed_conditions == ""
    assert "Changed with it: torch 2.12.0 → 2.13.0." in judged[11].detail


def test_another_machine_of_the_model_is_named_with_a_regression_and_is_no_mark() -> None:
    before = [replace(night(i, value, torch="2.13.0"), host="npu-7") for i, value in enumerate(QUIET)]
    judged = judge([*before, *(replace(night(i, 108, torch="2.13.0"), host="npu-9") for i in (10, 11))])
    assert judged[10].changed_conditions == ""
    assert judged[11].detail.endswith("Changed with it: host npu-7 → npu-9.")


def test_a_regression_that_comes_with_another_device_of_the_machine_says_so() -> None:
    before = [replace(night(i, value), physical_id="3") for i, value in enumerate(QUIET)]
    judged = judge([*before, *(replace(night(i, 108), physical_id="5") for i in (10, 11))])
    assert judged[11].detail.endswith("Changed with it: physical device 3 → 5.")
    assert {one.changed_conditions for one in judged} == {""}, "with a list of devices it changes every night"


def test_a_night_without_a_result_is_neither_good_nor_bad() -> None:
    judged = judge(nights([*QUIET, 108, None, 108]))
    assert [judgement.verdict for judgement in judged[10:]] == [
        Verdict.SUSPICIOUS,
        Verdict.NO_RESULT,
        Verdict.REGRESSION,
    ]
    assert judged[-1].detail.endswith("on two nights.")  # not "in a row"


def test_a_slow_drift_is_reported_against_the_best_earlier_level() -> None:
    creeping = [100 * 1.002**i * (1 + 0.002 * (-1) ** i) for i in range(60)]
    judged = judge(nights(creeping))
    assert Verdict.REGRESSION not in {judgement.verdict for judgement in judged[:30]}
    assert judged[30].drift is None
    assert judged[-1].drift == pytest.approx(1.002**50 - 1, abs=0.02) or judged[-1].verdict is Verdict.REGRESSION


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.one_of(st.none(), st.floats(1e-3, 1e9)), st.one_of(st.none(), st.floats(1e-3, 1e9)))))
def test_every_series_is_judged_night_by_night_as_it_was_then(values: list[tuple[float | None, float | None]]) -> None:
    points = [night(i, value, again) for i, (value, again) in enumerate(values)]
    judged = judge(points)
    assert len(judged) == len(points)
    assert judge(points[: len(points) // 2]) == judged[: len(points) // 2]  # later nights change no earlier verdict


# ---------------------------------------------------------------- rates of error, simulated

NOISE = 0.01
REMEASURED = "measured again at once"
NEXT_NIGHT = "confirmed by the next night"


@pytest.mark.parametrize("confirmation", [REMEASURED, NEXT_NIGHT])
def test_false_alarms_stay_below_one_in_fifty_series_and_month(confirmation: str) -> None:
    draw = random.Random(1)
    series, length = 1500, 60
    alarms = sum(_alarms(draw, length, confirmation) for _ in range(series))
    per_month = alarms / (series * length / 30)
    print(f"{confirmation}: {per_month:.4f} false alarms per series and month")
    assert per_month <= 0.02


@pytest.mark.parametrize("confirmation", [REMEASURED, NEXT_NIGHT])
def test_steps_of_five_percent_are_found_within_two_nights(confirmation: str) -> None:
    draw = random.Random(2)
    series = 1200
    found = sum(_found(draw, 30, 0.05, confirmation) for _ in range(series)) / series
    print(f"{confirmation}: {found:.1%} of +5 % steps found within two nights")
    assert found >= 0.95


def _alarms(draw: random.Random, length: int, confirmation: str) -> int:
    """New regressions and improvements in `length` nights of a case that never changes."""
    judged = judge(_simulated(draw, [1.0] * length, confirmation))
    return sum(judgement.new for judgement in judged)


def _found(draw: random.Random, before: int, step: float, confirmation: str) -> bool:
    """Is a step after `before` quiet nights a regression by its second night?"""
    judged = judge(_simulated(draw, [1.0] * before + [1 + step] * 2, confirmation))
    return any(judgement.verdict is Verdict.REGRESSION for judgement in judged[before:])


def _simulated(draw: random.Random, levels: list[float], confirmation: str) -> list[Point]:
    """Nights as the nightly makes them: a suspicious one is measured a second time, or the next night tells."""
    measure: Callable[[float], float] = lambda level: 100 * level * (1 + NOISE * draw.gauss(0, 1))  # noqa: E731
    points = nights(measure(level) for level in levels)
    if confirmation == NEXT_NIGHT:
        return points
    # Every night has its second value drawn; judging looks at it only where the first is suspicious.
    return [
        night(i, point.value_us, measure(level)) for i, (point, level) in enumerate(zip(points, levels, strict=True))
    ]


# ---------------------------------------------------------------- change points


def test_change_points_name_the_first_night_of_each_level() -> None:
    draw = np.random.default_rng(3)
    levels = np.repeat([100.0, 105.0, 98.0], [20, 15, 10])
    assert change_points.find(levels * (1 + 0.005 * draw.standard_normal(45))) == [20, 35]


def test_two_odd_nights_at_the_end_are_no_change_point() -> None:
    assert change_points.find([*QUIET * 2, 110, 110]) == []
    assert change_points.find([*QUIET * 2, 110, 110.2, 109.9]) == [20]


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * 5, [7.0] * 40])
def test_short_or_constant_series_have_no_change_points(values: list[float]) -> None:
    assert change_points.find(values) == []


def test_durations_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        change_points.find([1.0, 0.0, 2.0])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=6, max_size=14))
def test_the_strongest_split_is_the_one_of_the_definition(values: list[float]) -> None:
    array = np.array(values)
    at, statistic = change_points.strongest_split(np.abs(array[:, None] - array[None, :]))
    splits = range(3, len(values) - 2)
    by_definition = {i: _energy(values[:i], values[i:]) for i in splits}
    assert statistic == pytest.approx(max(by_definition.values()), abs=1e-9)
    assert by_definition[at] == pytest.approx(max(by_definition.values()), abs=1e-9)


def _energy(left: list[float], right: list[float]) -> float:
    """Matteson and James, equations 5 and 6, with exponent 1."""
    n, m = len(left), len(right)
    between = 2 / (n * m) * sum(abs(x - y) for x in left for y in right)
    within = [
        sum(abs(side[i] - side[j]) for i in range(k) for j in range(i)) * 2 / (k * (k - 1))
        for side, k in ((left, n), (right, m))
    ]
    return n * m / (n + m) * (between - sum(within))


def test_change_points_seldom_appear_where_there_are_none_and_find_steps() -> None:
    draw = np.random.default_rng(4)
    series = 150
    false = sum(len(change_points.find(100 * (1 + 0.03 * draw.standard_normal(60)))) for _ in range(series)) / series
    steps = np.repeat([100.0, 105.0], [30, 14])
    found = sum(
        any(27 <= at <= 33 for at in change_points.find(steps * (1 + 0.02 * draw.standard_normal(44))))
        for _ in range(series)
    )
    print(
        f"noise 3 %: {false:.3f} false change points in 60 nights; noise 2 %: {found / series:.0%} of +5 % steps found"
    )
    assert false <= 0.05
    assert found / series >= 0.9
