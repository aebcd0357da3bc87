"""What the page shows, as the one JSON object that it carries; scripts/templates/page.js reads exactly this.

Numbers are microseconds as measured. Op types, runs and devices are named once and then meant by their index, so that
three thousand cases stay a few megabytes.
"""

from __future__ import annotations

import json
import os
import urllib.parse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from scripts.history import HistoryRow
from scripts.history_rows import RunFacts
from scripts.series import Series
from scripts.status import Status
from scripts.work import MARGIN

Op = tuple[int, int, float]  # index into `ops`, count and total per iteration
MOST_NAMED = 3  # cases named in a note
FEWEST_TOGETHER, TOGETHER = 3, 0.05  # cases, and their median change, that are put down to the machine


class HistoryPlot(msgspec.Struct, omit_defaults=True):
    """The nights of one case, oldest first."""

    run: list[int]  # index into `runs`
    us: list[float | None]
    verdicts: list[int]  # index into `verdicts`
    steps: list[tuple[int, str]]  # night that begins a new level, and the change
    marks: list[tuple[int, str]]  # night with other conditions, and which
    accepted: list[tuple[int, str]]
    baseline: float | None = None
    smallest: float | None = None


class PageCase(msgspec.Struct, omit_defaults=True):
    """One case; what is not known is left out."""

    id: str
    status: str
    family: str
    tier: str
    device: str
    dtypes: list[str]
    inputs: str
    scope: str
    command: str  # repeats the measurement by hand, "" where there is none
    folder: str = ""  # of its artifacts, as a link
    files: list[tuple[str, str]] = []  # label, and name inside the folder as a link
    report: str = ""  # as a link
    standIn: bool = False
    reason: str = ""
    at: str = ""
    e2e: float | None = None
    min: float | None = None
    max: float | None = None
    iqr: float | None = None
    spread: float | None = None  # IQR / median
    low: float | None = None
    high: float | None = None
    span: float | None = None
    wall: float | None = None
    kernels: int | None = None
    roofline: str = ""
    roof: tuple[float, float, float, float] | None = None  # FLOP per byte, TFLOP/s; the device's TFLOP/s, GB/s at most
    warnings: list[str] = []
    iterations: list[float] | None = None
    ops: list[Op] | None = None
    verdict: str = ""
    detail: str = ""
    change: float | None = None
    new: bool = False
    drift: float | None = None
    history: HistoryPlot | None = None


class PageRun(msgspec.Struct):
    """One run that a case can be shown of."""

    id: str
    at: str
    host: str
    commit: str
    dirty: bool


class ComparedCase(msgspec.Struct, array_like=True):
    """One case of a run for the comparison; only what is equal in device and identity is compared."""

    us: float
    ops: list[Op]
    device: int
    identity: int
    conditions: int  # index into `conditions`
    code: str


class ComparedRun(msgspec.Struct):
    """One run for the comparison; its cases by their index in the page's list."""

    run: int
    cases: dict[int, ComparedCase]


class PageData(msgspec.Struct):
    """All of it."""

    subtitle: str
    config: str  # what commands give Snakemake before a target
    notes: list[str]
    runs: list[PageRun]
    devices: list[str]
    ops: list[str]
    verdicts: list[str]
    conditions: list[dict[str, str]]  # what may have moved a number, but for its code
    cases: list[PageCase]
    compared: list[ComparedRun]


@dataclass(frozen=True)
class Shown:
    """The run that the page is about."""

    run: RunFacts
    rows: Sequence[HistoryRow]  # one per case, in the order of the cases file
    judged: bool  # False: cached results of different days, which no night's verdict fits
    reports: Mapping[str, Path] = field(default_factory=dict)  # by case id, those that exist
    config: str = ""  # what commands give Snakemake before a target


@dataclass(frozen=True)
class Past:
    """The nights before the shown run."""

    series: Mapping[str, Series] = field(default_factory=dict)  # by case id; a night that is shown is the last of them
    compared: Sequence[HistoryRow] = ()  # rows with ops, of the latest runs before
    problems: Sequence[str] = ()


class _Numbered:
    """Names by index, in the order they were met."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def __call__(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


class _Builder:
    def __init__(self, shown: Shown, past: Past, folder: Path) -> None:
        self.shown, self.past, self.folder = shown, past, folder
        self.ops, self.devices, self.identities, self.verdicts = (_Numbered() for _ in range(4))
        self.conditions = _Numbered()
        self.runs: dict[str, int] = {}
        self.run_list: list[PageRun] = []

    def build(self) -> PageData:
        cases = [self._case(row) for row in self.shown.rows]
        compared = self._compared({case.id: i for i, case in enumerate(cases)})
        return PageData(
            subtitle=_subtitle(self.shown),
            config=self.shown.config,
            notes=[*self.past.problems, *_notes(self.shown, self.past)],
            runs=self.run_list,
            devices=list(self.devices.names),
            ops=list(self.ops.names),
            verdicts=list(self.verdicts.names),
            conditions=[json.loads(text) for text in self.conditions.names],
            cases=cases,
            compared=compared,
        )

    def _case(self, row: HistoryRow) -> PageCase:
        series = self.past.series.get(row.case_id)
        case = PageCase(
            id=row.case_id,
            status=row.status,
            family=row.family,
            tier=row.tier,
            device=row.device_model,
            dtypes=row.dtypes,
            inputs=row.inputs,
            scope=row.scope,
            command=row.command,
            folder=self._href(Path(row.folder)),
            files=_files(row),
            report=self._href(report) if (report := self.shown.reports.get(row.case_id)) else "",
            standIn=row.stand_in,
            reason=row.reason,
            history=self._history(series) if series else None,
        )
        if row.e2e_us is not None:
            self._add_numbers(case, row)
        if series and self.shown.judged:
            last = series.last
            case.verdict, case.detail, case.change = str(last.verdict), last.detail, last.change
            case.new, case.drift = last.new, last.drift
        return case

    def _add_numbers(self, case: PageCase, row: HistoryRow) -> None:
        case.at = row.measured_at.isoformat() if row.measured_at else ""
        case.e2e, case.min, case.max, case.iqr = row.e2e_us, row.min_us, row.max_us, row.iqr_us
        case.spread = row.iqr_us / row.e2e_us if row.iqr_us is not None and row.e2e_us else None
        case.low, case.high = row.median_low_us, row.median_high_us
        case.span, case.wall, case.kernels = row.device_span_us, row.host_wall_us, row.kernels
        case.roofline, case.roof = _roofline(row), _roof(row)
        case.warnings, case.iterations, case.ops = row.warnings, row.iteration_us, self._ops(row)

    def _ops(self, row: HistoryRow) -> list[Op]:
        return [(self.ops(f"{op.op} ({op.core})" if op.core else op.op), op.count, op.total_us) for op in row.ops]

    def _href(self, path: Path) -> str:
        return urllib.parse.quote(Path(os.path.relpath(path, self.folder)).as_posix())

    def _run(self, run_id: str, at: datetime, host: str = "", commit: str = "", dirty: bool = False) -> int:
        if run_id not in self.runs:
            self.runs[run_id] = len(self.run_list)
            self.run_list.append(PageRun(run_id, at.isoformat(), host, commit, dirty))
        return self.runs[run_id]

    def _history(self, series: Series) -> HistoryPlot:
        points, judged = series.points, series.judgements
        marks = [(i, one.changed_conditions) for i, one in enumerate(judged) if one.changed_conditions]
        return HistoryPlot(
            run=[self._run(point.run_id, point.at) for point in points],
            us=[_drawn(point.value_us, point.again_us) for point in points],
            verdicts=[self.verdicts(str(one.verdict)) for one in judged],
            steps=[(i, _level_change(series, i)) for i in series.change_points],
            marks=marks,
            accepted=[
                (at, change.why)
                for change in series.accepted
                # 0: before the nights that are shown, or after all of them
                if (at := next((i for i, point in enumerate(points) if point.at >= change.since), 0))
            ],
            baseline=series.last.baseline_us,
            smallest=series.last.smallest_change,
        )

    def _compared(self, at: Mapping[str, int]) -> list[ComparedRun]:
        rows = [*(row for row in self.past.compared if row.measurement == 1), *self.shown.rows]
        found: dict[str, ComparedRun] = {}
        for row in rows:
            self._describe(row)
            run = found.setdefault(row.run_id, ComparedRun(self.runs[row.run_id], {}))
            if row.case_id in at and row.status == Status.OK and row.e2e_us:
                device = self.devices(row.device_model)
                identity = self.identities(f"{row.identity} {row.scope}")
                run.cases[at[row.case_id]] = ComparedCase(
                    row.e2e_us, self._ops(row), device, identity, *self._conditions(row)
                )
        return list(found.values())

    def _conditions(self, row: HistoryRow) -> tuple[int, str]:
        found = json.loads(row.conditions)
        code = found.pop("code", "")
        return self.conditions(json.dumps(found, sort_keys=True)), code

    def _describe(self, row: HistoryRow) -> None:
        run = self.run_list[self._run(row.run_id, row.run_started_at)]
        run.host, run.commit, run.dirty = row.host, row.commit, row.dirty


def build(shown: Shown, past: Past, folder: Path) -> PageData:
    """The page's data; `folder` is where the page will lie, from which its links lead."""
    return _Builder(shown, past, folder).build()


def encode(data: PageData) -> str:
    """As JSON that no HTML parser takes for the end of its script element, or for a comment in it."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def _drawn(first: float | None, again: float | None) -> float | None:
    """The less disturbed of a night's measurements."""
    return first if first is None or again is None else min(first, again)


def _level_change(series: Series, at: int) -> str:
    from statistics import median

    bounds = [0, *series.change_points, len(series.points)]
    i = bounds.index(at)
    before, after = (
        median([point.value_us for point in series.points[low:high] if point.value_us is not None])
        for low, high in ((bounds[i - 1], at), (at, bounds[i + 1]))
    )
    return f"{100 * (after / before - 1):+.1f} %"


def _files(row: HistoryRow) -> list[tuple[str, str]]:
    """What lies in the case's folder, as far as it is there."""
    folder = Path(row.folder)
    names = {"numbers (JSON)": "perf.json", "capture": row.profiler_dir, "log": Path(row.log).name if row.log else ""}
    return [(label, urllib.parse.quote(name)) for label, name in names.items() if name and (folder / name).exists()]


def _roofline(row: HistoryRow) -> str:
    """The call's rates against what its device was measured to do at most, as far as they are known."""
    seconds = (row.e2e_us or 0) / 1e6
    rates = [
        (row.flops, 1e12, "TFLOP/s", row.peak_tflops),
        (row.bytes_moved, 1e9, "GB/s", row.peak_gbps),
    ]
    parts = []
    for amount, unit, name, peak in rates:
        if amount and seconds:
            rate = amount / seconds / unit
            above = ", so above it" if peak and rate > MARGIN * peak else ""
            share = f" ({rate / peak:.0%} of the measured peak{above})" if peak else ""
            parts.append(f"{rate:.3g} {name}{share}")
    if row.flops and row.bytes_moved:
        parts.append(f"{row.flops / row.bytes_moved:.3g} FLOP per byte")
    return ", ".join(parts)


def _roof(row: HistoryRow) -> tuple[float, float, float, float] | None:
    """Where the call stands under its device's limits, where all of it is known."""
    if not (row.e2e_us and row.flops and row.bytes_moved and row.peak_tflops and row.peak_gbps):
        return None
    return row.flops / row.bytes_moved, row.flops / row.e2e_us / 1e6, row.peak_tflops, row.peak_gbps


def _subtitle(shown: Shown) -> str:
    run = shown.run
    commit = f", commit {run.commit[:12]}{' with uncommitted changes' if run.dirty else ''}" if run.commit else ""
    devices = ", ".join(dict.fromkeys(row.device_model for row in shown.rows if row.device_model)) or "no device"
    at = f"{run.started_at:%Y-%m-%d %H:%M} UTC"
    if not shown.judged:
        return f"Cached results as of {at} on {run.host}{commit}; {devices}. Verdicts are given by nights."
    return f"Night {run.run_id}, begun {at} on {run.host}{commit}; {devices}."


def _notes(shown: Shown, past: Past) -> list[str]:
    notes = []
    if any(row.interrupted for row in shown.rows) and shown.judged:
        notes.append("This run ended before every case had its turn. Started again, it goes on under its own id.")
    if stand_ins := sum(row.stand_in for row in shown.rows):
        notes.append(f"{stand_ins} cases were answered by a stand-in runtime: their times mean nothing.")
    if shown.judged:
        notes += [*_together_note(past.series), *_condition_notes(past.series)]
    return notes


def _together_note(series: Mapping[str, Series]) -> list[str]:
    """Cases that move together are the machine's doing rather than the goldens'."""
    from statistics import median

    changes = [one.last.change for one in series.values() if one.last.change is not None]
    middle = median(changes) if len(changes) >= FEWEST_TOGETHER else 0.0
    if abs(middle) < TOGETHER:
        return []
    return [
        f"Half of the {len(changes)} cases that have a baseline are {abs(middle):.0%} "
        f"{'slower' if middle > 0 else 'faster'} than it, or more: look at the machine before the goldens."
    ]


def _condition_notes(series: Mapping[str, Series]) -> list[str]:
    """What differs from the night before, most cases first."""
    counts: Counter[str] = Counter()
    named: dict[str, list[str]] = {}
    for case_id, one in series.items():
        for change in filter(None, one.last.changed_conditions.split(", ")):
            counts[change] += 1
            named.setdefault(change, []).append(case_id)
    notes = []
    for change, count in counts.most_common(8):
        more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
        notes.append(f"Changed since the night before: {change} ({', '.join(named[change][:MOST_NAMED])}{more}).")
    return notes
