"""What a night says about a case: its number against the case's own earlier nights.

A series is one case on one device model in one scope. Tonight's value is compared with the nights that count as its
baseline by robust statistics, once for a suspicion and again, on a second measurement, for a verdict; the settings
below were chosen by simulation (docs/history.md has the figures, tests/test_verdicts.py holds them).
Judging is a replay of the whole series: the same nights and the same accepted changes give the same verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from statistics import fmean, median

WINDOW = 30  # latest nights of the baseline that are looked at: a level may creep, the noise is the recent one
MIN_NIGHTS = 7  # below, a MAD says too little about the noise
SUSPECT = 2.5  # deviations (scaled MAD) from the baseline's median that call for a second measurement …
CONFIRM = 2.0  # … which must lie on the same side at least this far out …
DECIDE = 2.75  # … and the mean of both at least this far
MIN_CHANGE = 0.02  # of the baseline: smaller changes are no news, however significant
PRECISE = 0.05  # a series that cannot show a change of 5 % is not called unchanged
MIN_DRIFT = 0.05  # of the best earlier level
FASTEST_MOVES = 0.25  # of a slowdown that is real shows in the fastest iteration as well, at least
SIGMA = 1.4826  # a normal distribution's standard deviation in MADs

UNEXPLAINED = (
    "Its inputs are not the same bit for bit, although neither its code nor its configuration changed: look for a "
    "factory that is not seeded, or for a version that draws differently."
)

Conditions = tuple[tuple[str, str], ...]


class Verdict(StrEnum):
    """The one word about a case's night; what it rests on stands beside it."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    SUSPICIOUS = "suspicious"
    SAME = "same"
    NOT_ENOUGH_HISTORY = "not enough history"
    NOT_PRECISE_ENOUGH = "not precise enough"
    CHANGED_IDENTITY = "changed identity"
    NO_RESULT = "no result"


@dataclass(frozen=True)
class Point:
    """One night of a series."""

    run_id: str
    at: datetime
    value_us: float | None  # None where the night has no result
    again_us: float | None = None  # the second measurement of the same night
    identity: str = ""  # what was measured: inputs, scalars, cache mode
    conditions: Conditions = ()  # versions, code and settings that may move the number
    fastest_us: float | None = None  # the night's fastest iteration, of both measurements
    host: str = ""
    physical_id: str = ""  # of the device on its machine


@dataclass(frozen=True)
class Judgement:
    """The verdict of one night, and the figures it rests on; None where there is no baseline."""

    verdict: Verdict
    detail: str
    baseline_us: float | None = None
    change: float | None = None  # tonight / baseline - 1; of two measurements, what both show at least
    smallest_change: float | None = None  # the smallest that would have been noticed
    since: str = ""  # run that the regression or improvement began with
    new: bool = False  # True on that first night
    drift: float | None = None  # the baseline's recent level / its best earlier level - 1, where that is news
    changed_conditions: str = ""  # what else differs from the night before


@dataclass(frozen=True)
class Baseline:
    """Robust level and noise of the nights that tonight is compared with."""

    median_us: float
    sigma_us: float
    nights: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Baseline:
        """From at least one value. The MAD of few nights is often too small by chance: 3/n more makes up for it."""
        recent = values[-WINDOW:]
        middle = median(recent)
        mad = median(abs(value - middle) for value in recent)
        return cls(middle, SIGMA * mad * (1 + 3 / len(recent)), len(recent))

    def side(self, value_us: float, deviations: float) -> int:
        """+1 slower, -1 faster, 0 within `deviations` of the noise or within MIN_CHANGE."""
        distance = value_us - self.median_us
        limit = max(deviations * self.sigma_us, MIN_CHANGE * self.median_us)
        return 0 if abs(distance) <= limit else (1 if distance > 0 else -1)

    @property
    def smallest_change(self) -> float:
        """The smallest relative change that one measurement would make suspicious."""
        return max(SUSPECT * self.sigma_us / self.median_us, MIN_CHANGE)


@dataclass
class _Replay:
    """What is carried from night to night."""

    values: list[float] = field(default_factory=list)  # the baseline, oldest first
    fastest: list[float] = field(default_factory=list)  # fastest iterations of these nights, where they are known
    best_us: float | None = None  # best level that the baseline ever had
    identity: str | None = None
    conditions: Conditions | None = None  # of the night before
    host: str = ""
    physical_id: str = ""
    baseline_conditions: Conditions | None = None  # of the last night that entered the baseline, with its device
    pending_us: float | None = None  # unconfirmed value of the last night that could be judged
    # Nights of a change that is neither accepted nor gone, each with its fastest iteration.
    streak: list[tuple[float, float | None]] = field(default_factory=list)
    side: int = 0  # of the streak
    since: str = ""

    def restart(self) -> None:
        """Begin a new baseline."""
        self.values, self.fastest, self.best_us = [], [], None
        self.end_streak()

    def end_streak(self) -> None:
        """Forget a change that is gone, accepted or the new baseline."""
        self.pending_us, self.streak, self.side, self.since = None, [], 0, ""

    @property
    def placed(self) -> Conditions:
        """The night's conditions with its machine and device: no marks in a history, but perhaps why it regressed."""
        device = [("physical device", self.physical_id)] if self.physical_id else []
        return (*(self.conditions or ()), ("host", self.host), *device)

    def add(self, value_us: float, fastest_us: float | None = None) -> None:
        """Count a night into the baseline."""
        self.values.append(value_us)
        if fastest_us is not None:
            self.fastest.append(fastest_us)
        self.baseline_conditions = self.placed
        if len(self.values) >= MIN_NIGHTS:
            level = median(self.values[-MIN_NIGHTS:])
            self.best_us = level if self.best_us is None else min(self.best_us, level)


def judge(points: Sequence[Point], accepted: Sequence[datetime] = ()) -> list[Judgement]:
    """One judgement per night, oldest first.

    `accepted` are the times from which on a new level is the right one: the baseline starts anew at the first night
    at or after each. Nights that are suspicious or changed never enter the baseline, so that a regression stays one
    until it is gone or accepted; an improvement that lasts MIN_NIGHTS becomes the baseline by itself.
    """
    replay, waiting, judgements = _Replay(), sorted(accepted), []
    for point in points:
        while waiting and waiting[0] <= point.at:
            waiting.pop(0)
            replay.restart()
        judgements.append(_judge_night(replay, point))
    return judgements


def _judge_night(replay: _Replay, point: Point) -> Judgement:
    if point.value_us is None:
        return Judgement(Verdict.NO_RESULT, "The case has no result this night.")
    changed = _differences(replay.conditions, point.conditions)
    same_code = _code(replay.conditions) == _code(point.conditions) != ""
    replay.conditions, replay.host, replay.physical_id = point.conditions, point.host, point.physical_id
    known, replay.identity = replay.identity, point.identity
    if known not in (None, point.identity):
        replay.restart()
        replay.add(point.value_us, point.fastest_us)
        detail = (
            UNEXPLAINED
            if same_code
            else "Its inputs or the cache mode changed: earlier nights measured something else."
        )
        return Judgement(Verdict.CHANGED_IDENTITY, detail, changed_conditions=changed)
    have = len(replay.values)
    if have < MIN_NIGHTS:
        replay.add(point.value_us, point.fastest_us)
        detail = f"{have} of the {MIN_NIGHTS} earlier nights that a verdict needs."
        return Judgement(Verdict.NOT_ENOUGH_HISTORY, detail, changed_conditions=changed)
    return _compare(replay, point, point.value_us, changed)


def _compare(replay: _Replay, point: Point, first_us: float, changed: str) -> Judgement:
    """The verdict against a baseline that is long enough; `first_us` is the night's first measurement."""
    baseline = Baseline.of(replay.values)
    if _disturbed(replay, baseline, point, first_us):
        return Judgement(
            Verdict.NOT_PRECISE_ENOUGH,
            f"The median is {_percent(first_us / baseline.median_us - 1)} off, but its fastest iteration hardly: "
            "something disturbed the measurement.",
            baseline.median_us,
            first_us / baseline.median_us - 1,
            baseline.smallest_change,
            changed_conditions=changed,
        )
    verdict, detail, used_us = _decide(replay, baseline, first_us, point.again_us)
    new = False
    if verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT):
        new = not replay.since
        replay.since = replay.since or point.run_id
        replay.streak.append((used_us, point.fastest_us))
        replay.pending_us = None
        if new and (with_it := _differences(replay.baseline_conditions, replay.placed)):
            detail += f" Changed with it: {with_it}."
    elif verdict is Verdict.SUSPICIOUS:
        replay.pending_us = first_us
    else:
        replay.end_streak()
        replay.add(used_us, point.fastest_us)
        if baseline.smallest_change > PRECISE:
            verdict = Verdict.NOT_PRECISE_ENOUGH
            detail = f"Only a change of more than {baseline.smallest_change:.0%} would show in this case's noise."
    judgement = Judgement(
        verdict,
        detail,
        baseline_us=baseline.median_us,
        change=used_us / baseline.median_us - 1,
        smallest_change=baseline.smallest_change,
        since=replay.since,
        new=new,
        drift=_drift(replay, baseline),
        changed_conditions=changed,
    )
    if verdict is Verdict.IMPROVEMENT and len(replay.streak) >= MIN_NIGHTS:
        _rebase(replay)
    return judgement


def _disturbed(replay: _Replay, baseline: Baseline, point: Point, first_us: float) -> bool:
    """Whether a slow median stands on slow iterations beside fast ones: a slower case has no fast ones.

    Such a night gives no verdict, and enters no baseline.
    """
    if point.fastest_us is None or len(replay.fastest) < MIN_NIGHTS or baseline.side(first_us, CONFIRM) <= 0:
        return False
    moved = point.fastest_us / median(replay.fastest[-WINDOW:]) - 1
    return moved < FASTEST_MOVES * (first_us / baseline.median_us - 1)


def _decide(replay: _Replay, baseline: Baseline, first_us: float, again_us: float | None) -> tuple[Verdict, str, float]:
    """Verdict, its sentence, and the value that stands for the night."""
    if replay.side:
        return _still(replay, baseline, first_us if again_us is None else fmean((first_us, again_us)))
    if again_us is None and replay.pending_us is not None:
        replay.side = _confirmed(baseline, replay.pending_us, first_us)
        if replay.side:
            return (*_change(baseline, replay.side, first_us, "on two nights"), first_us)
    if not baseline.side(first_us, SUSPECT):
        return (
            Verdict.SAME,
            f"Within {baseline.smallest_change:.1%} of the median of {baseline.nights} nights.",
            first_us,
        )
    seen = _percent(first_us / baseline.median_us - 1)
    if again_us is None:
        detail = f"{seen} against the median of {baseline.nights} nights, measured once: the next measurement decides."
        return Verdict.SUSPICIOUS, detail, first_us
    replay.side = _confirmed(baseline, first_us, again_us)
    if replay.side:
        # What both show at least: either may have been disturbed besides.
        nearer = min(first_us, again_us, key=lambda value_us: abs(value_us - baseline.median_us))
        return (*_change(baseline, replay.side, nearer, "on two measurements in one night"), nearer)
    return Verdict.SAME, f"The first measurement was {seen} off, the second did not confirm it.", again_us


def _confirmed(baseline: Baseline, first_us: float, second_us: float) -> int:
    """The side on which a suspicious value and the measurement after it lie far enough out to be a change, else 0."""
    side = baseline.side(first_us, SUSPECT)
    agrees = side == baseline.side(second_us, CONFIRM) == baseline.side(fmean((first_us, second_us)), DECIDE)
    return side if agrees else 0


def _still(replay: _Replay, baseline: Baseline, value_us: float) -> tuple[Verdict, str, float]:
    """A change that was confirmed on an earlier night: is it still there?"""
    if baseline.side(value_us, CONFIRM) == replay.side:
        return (*_change(baseline, replay.side, value_us, f"since {replay.since}"), value_us)
    return Verdict.SAME, f"Back at the baseline, after the change since {replay.since}.", value_us


def _change(baseline: Baseline, side: int, value_us: float, how: str) -> tuple[Verdict, str]:
    verdict = Verdict.REGRESSION if side > 0 else Verdict.IMPROVEMENT
    change = _percent(value_us / baseline.median_us - 1)
    return verdict, f"{change} against the median of {baseline.nights} nights, {how}."


def _rebase(replay: _Replay) -> None:
    streak = list(replay.streak)
    replay.restart()
    for value_us, fastest_us in streak:
        replay.add(value_us, fastest_us)


def _drift(replay: _Replay, baseline: Baseline) -> float | None:
    if replay.best_us is None or replay.side:
        return None
    drift = median(replay.values[-MIN_NIGHTS:]) / replay.best_us - 1
    return drift if drift > max(MIN_DRIFT, baseline.smallest_change) else None


def _code(conditions: Conditions | None) -> str:
    return dict(conditions or ()).get("code", "")


def _differences(before: Conditions | None, now: Conditions) -> str:
    """What differs between two nights' conditions, as "torch 2.12.0 → 2.13.0, threads 1 → 2"; "" for nothing."""
    if before is None or before == now:
        return ""
    old, new = dict(before), dict(now)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name, '–')} → {new.get(name, '–')}" for name in names)


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"
