"""The history case by case: series of one case on one device model in one scope, judged night by night."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from scripts import verdicts
from scripts.accepted import AcceptedChange
from scripts.history import HistoryRow
from scripts.status import Status
from scripts.verdicts import Judgement, Point, Verdict


@dataclass(frozen=True)
class Series:
    """All nights of one case on one device model; a night without a result is a point without a value."""

    case_id: str
    device_model: str  # "" where no night ever had a result
    scope: str
    points: list[Point]
    judgements: list[Judgement]  # one per point
    accepted: list[AcceptedChange]

    @property
    def last(self) -> Judgement:
        """The verdict of the last night."""
        return self.judgements[-1]

    @property
    def last_run(self) -> str:
        """The run that the series ends with."""
        return self.points[-1].run_id

    @cached_property
    def change_points(self) -> list[int]:
        """Indices of points that begin a new level, as the whole history shows it, in nights of the last identity."""
        from scripts import change_points  # numpy: not where Snakemake starts

        last = next((point.identity for point in reversed(self.points) if point.value_us is not None), "")
        at = [i for i, point in enumerate(self.points) if point.value_us and point.identity == last]
        return [at[i] for i in change_points.find([self.points[i].value_us or 0.0 for i in at])]


def of(rows: Iterable[HistoryRow], accepted: Sequence[AcceptedChange] = ()) -> list[Series]:
    """Every series in `rows`, given in time's order. Failed nights know no device: they are in all of a case's."""
    by_case: dict[str, list[HistoryRow]] = defaultdict(list)
    for row in rows:
        by_case[row.case_id].append(row)
    return [one for case_id, found in by_case.items() for one in _of_case(case_id, found, accepted)]


def _of_case(case_id: str, rows: list[HistoryRow], accepted: Sequence[AcceptedChange]) -> list[Series]:
    kinds = list(dict.fromkeys((row.device_model, row.scope) for row in rows if row.device_model))
    found = []
    for model, scope in kinds or [("", rows[-1].scope)]:
        mine = [row for row in rows if (row.device_model, row.scope) in ((model, scope), ("", scope))]
        points = _points(mine)
        changes = [change for change in accepted if change.covers(case_id, model)]
        judged = verdicts.judge(points, [change.since for change in changes])
        found.append(Series(case_id, model, scope, points, judged, changes))
    return found


def _points(rows: list[HistoryRow]) -> list[Point]:
    """One point per run, from its one or two measurements."""
    by_run: dict[str, list[HistoryRow]] = defaultdict(list)
    for row in rows:
        by_run[row.run_id].append(row)
    return [_point(sorted(found, key=lambda row: row.measurement)) for found in by_run.values()]


def _point(rows: list[HistoryRow]) -> Point:
    good = [row for row in rows if row.status == Status.OK and row.e2e_us]
    first = good[0] if good else rows[0]
    again = good[1].e2e_us if len(good) > 1 and good[1].identity == first.identity else None
    return Point(
        run_id=first.run_id,
        at=first.run_started_at,
        value_us=first.e2e_us if good else None,
        again_us=again,
        fastest_us=min((row.min_us for row in good if row.min_us is not None), default=None),
        identity=first.identity,
        conditions=tuple(json.loads(first.conditions).items()) if good else (),
    )


def current(found: Iterable[Series], run_id: str) -> dict[str, Series]:
    """The series that the run adds to, by case: of several device models, the one that it was measured on."""
    chosen: dict[str, Series] = {}
    for one in found:
        if one.last_run == run_id and (one.case_id not in chosen or one.last.verdict is not Verdict.NO_RESULT):
            chosen[one.case_id] = one
    return chosen
