"""The history case by case: series of one case on one device model in one scope, judged night by night."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from scripts import verdicts
from scripts.accepted import AcceptedChange
from scripts.history import HistoryRow
from scripts.status import Status
from scripts.verdicts import Judgement, Point


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
    def last_result(self) -> int:
        """Index of the last night that has one, -1 where none has."""
        return max((i for i, point in enumerate(self.points) if point.value_us is not None), default=-1)

    @cached_property
    def change_points(self) -> list[int]:
        """Indices of points that begin a new level, as the whole history shows it, in nights of the last identity."""
        from scripts import change_points  # numpy: not where Snakemake starts

        last = next((point.identity for point in reversed(self.points) if point.value_us is not None), "")
        at = [i for i, point in enumerate(self.points) if point.value_us and point.identity == last]
        return [at[i] for i in change_points.find([self.points[i].value_us or 0.0 for i in at])]


def of(
    rows: Iterable[HistoryRow], accepted: Sequence[AcceptedChange] = (), renamed: Mapping[str, str] | None = None
) -> list[Series]:
    """Every series in `rows`, given in time's order. Failed nights know no device: they are in all of a case's.

    `renamed` are present ids by former ones: a change that was accepted under a former name stays accepted.
    """
    by_case: dict[str, list[HistoryRow]] = defaultdict(list)
    for row in rows:
        by_case[row.case_id].append(row)
    names: dict[str, list[str]] = {case_id: [case_id] for case_id in by_case}
    for former, case_id in (renamed or {}).items():
        names.setdefault(case_id, []).append(former)
    return [one for case_id, found in by_case.items() for one in _of_case(names[case_id], found, accepted)]


def _of_case(names: Sequence[str], rows: list[HistoryRow], accepted: Sequence[AcceptedChange]) -> list[Series]:
    """The series of the case that is called the first of `names` now."""
    kinds = list(dict.fromkeys((row.device_model, row.scope) for row in rows if row.device_model))
    measured = {scope for _, scope in kinds}
    kinds += dict.fromkeys(("", row.scope) for row in rows if row.scope not in measured)  # failed whenever it ran
    found = []
    for model, scope in kinds:
        mine = [row for row in rows if (row.device_model, row.scope) in ((model, scope), ("", scope))]
        points = _points(mine)
        changes = [change for change in accepted if any(change.covers(name, model) for name in names)]
        judged = verdicts.judge(points, [change.since for change in changes])
        found.append(Series(names[0], model, scope, points, judged, changes))
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
        host=first.host,
        physical_id=first.physical_id if good else "",
    )


def of_rows(found: Iterable[Series], rows: Iterable[HistoryRow]) -> dict[str, Series]:
    """The series of every row's case, by case: on the row's device, in its scope.

    A row without a result knows no device: of several series, it is shown in the one that was measured last.
    """
    by_case: dict[str, list[Series]] = defaultdict(list)
    for one in found:
        by_case[one.case_id].append(one)
    chosen: dict[str, Series] = {}
    for row in rows:
        mine = [one for one in by_case[row.case_id] if one.scope == row.scope]
        same = [one for one in mine if one.device_model == row.device_model]
        if same or (mine and not row.device_model):
            chosen[row.case_id] = max(same or mine, key=lambda one: one.points[one.last_result].at)
    return chosen
