"""One night: every case measured afresh under a run id, recorded, judged and shown.

nights/<run id>/lock.json        what was used
nights/<run id>/first/…          artifacts of every case, as under prof/
nights/<run id>/second/…         of the cases that were measured again
nights/<run id>/verdicts.json    what the night says; written last
history/<run id>.parquet         its rows of the history
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from scripts import (
    accepted,
    artifacts,
    closing,
    exports,
    history_rows,
    names,
    night_lock,
    outcomes,
    summary,
    unfinished_nights,
)
from scripts import history as history_module
from scripts.accepted import AcceptedChange
from scripts.errors import ArtifactError, ConfigError
from scripts.history import HistoryRow
from scripts.history_rows import RunFacts
from scripts.night_lock import LockRecord
from scripts.plan import PLAN_FOLDER, RUN_KEY, Plan, PlannedCase
from scripts.series import Series
from scripts.status import Status
from scripts.summary import SummaryEntry
from scripts.verdicts import Judgement, Verdict

FOLDER = Path("nights")
CURRENT = PLAN_FOLDER / "night"  # holds the id of the night that was run last here, for whoever started it
REPORTS = Path("reports")
# Longer ago, a night that was cut short is not tonight's: the scheduler's next call begins a new one.
RESUME_WITHIN = timedelta(hours=12)


class Outcome(StrEnum):
    """What a night comes to; the value of `goldenprof nightly`'s exit code hangs on it."""

    OK = "all ok"
    FAILED = "some cases failed"
    NOTHING = "nothing measured"
    REGRESSIONS = "regressions found"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> int:
        """1 is left for a night that could not be run."""
        return {"OK": 0, "FAILED": 2, "NOTHING": 3, "REGRESSIONS": 4, "INTERRUPTED": 5}[self.name]


@dataclass(frozen=True)
class CaseVerdict:
    """One case of verdicts.json."""

    case: str
    status: str
    device_model: str
    e2e_us: float | None
    verdict: Verdict
    detail: str
    baseline_us: float | None
    change: float | None
    smallest_change: float | None
    since: str
    new: bool
    drift: float | None
    changed_conditions: str


@dataclass
class VerdictsRecord:
    """verdicts.json."""

    kind: ClassVar[str] = "verdicts"
    run_id: str
    outcome: Outcome
    counts: dict[str, int]  # cases by verdict
    statuses: dict[str, int]
    to_measure_again: list[str]  # suspicious cases that were measured once
    problems: list[str]  # files of the history that were left out, nights that are dated later than this one
    cases: list[CaseVerdict] = field(default_factory=list)


@dataclass
class Night:
    """The night that this start of the workflow is about."""

    run: RunFacts
    plan: Plan  # of the cache; the night's own are rooted in its folder
    again: list[PlannedCase] = field(default_factory=list)  # what this start of the workflow measures a second time
    concluded: bool = False

    @property
    def folder(self) -> Path:
        """nights/<run id>."""
        return FOLDER / self.run.run_id

    @cached_property
    def first(self) -> Plan:
        """Every case, in the night's folder."""
        return self.plan.rooted(f"{self.folder.as_posix()}/first")

    @cached_property
    def second(self) -> Plan:
        """The same for second measurements."""
        return self.plan.rooted(f"{self.folder.as_posix()}/second")

    def results(self) -> list[str]:
        """perf.json of every selected case."""
        return [str(planned.folder / "perf.json") for planned in self.first.sweep()]

    def second_results(self) -> list[str]:
        """perf.json of the second measurement of every suspicious case; ConfigError before the first is over."""
        path = self.folder / "verdicts.json"
        if not path.exists():
            raise ConfigError(
                f"{path} is not there: the night {self.run.run_id} is not over. Run `snakemake -j1 nightly --config "
                f"{RUN_KEY}={self.run.run_id}` first."
            )
        suspicious = artifacts.read(path, VerdictsRecord).to_measure_again
        self.again = [self.second.by_id[case] for case in suspicious if case in self.second.by_id]
        return [str(planned.folder / "perf.json") for planned in self.again]

    def begin(self) -> None:
        """Write the lock file; a night that goes on keeps its own, and is not over any more."""
        (self.folder / "verdicts.json").unlink(missing_ok=True)
        if not (self.folder / "lock.json").exists():
            unfinished_nights.record(FOLDER, self.plan)
            night_lock.write(self.folder, self.run.run_id, self.run.started_at, self.run.host, self.first)
        artifacts.write_bytes(CURRENT, self.run.run_id.encode())

    def conclude(self) -> VerdictsRecord:
        """Record, judge and show what has been measured, whatever is missing."""
        rows = self._rows()
        history_module.write(history_module.FOLDER, rows)
        if (self.folder / "lock.json").exists():
            night_lock.complete(self.folder, self.first, datetime.now(UTC))
        return _Conclusion(self, rows).write()

    def _rows(self) -> list[HistoryRow]:
        first = history_rows.rows(self.first.sweep(), self.run)
        again = [planned for planned in self.second.sweep() if outcomes.ended(planned.folder)]
        return [*first, *history_rows.rows(again, self.run, measurement=2)]


# ---------------------------------------------------------------- which night


def choose(plan: Plan, now: datetime | None = None) -> Night:
    """The night of `--config run=…`, one that was cut short a few hours ago under the same plan, or a new one."""
    now = (now or datetime.now(UTC)).replace(microsecond=0)
    _accepted_changes()  # a mistake in that file is told before hours are spent, not after
    wanted = str(plan.config.get(RUN_KEY) or "")
    if wanted and (problem := names.problem(wanted)):
        raise ConfigError(f"--config {RUN_KEY}: {problem}")
    found = _begun(wanted) if wanted else _cut_short(plan, now)
    return Night(found or _new(wanted, now), plan)


def _new(run_id: str, now: datetime) -> RunFacts:
    project = night_lock.repository(Path.cwd())
    host = platform.node()
    slug = re.sub(r"[^A-Za-z0-9-]+", "-", host)
    return RunFacts(run_id or f"{now:%Y%m%dT%H%M%SZ}-{slug}", now, host, project.commit, project.dirty)


def _begun(run_id: str) -> RunFacts | None:
    """A night that has begun, from its lock file."""
    path = FOLDER / run_id / "lock.json"
    return unfinished_nights.facts(artifacts.read(path, LockRecord)) if path.exists() else None


def _cut_short(plan: Plan, now: datetime) -> RunFacts | None:
    """The latest night that was cut short on this host not long ago and would measure the same."""
    recent = [path for path in FOLDER.glob("*/lock.json") if path.stat().st_mtime > (now - RESUME_WITHIN).timestamp()]
    found = [facts for path in recent if (facts := _goes_on(path.parent, plan, now))]
    return max(found, key=lambda facts: facts.started_at, default=None)


def _goes_on(folder: Path, plan: Plan, now: datetime) -> RunFacts | None:
    """The night in `folder`, if it can be gone on with."""
    try:
        if _over(folder):
            return None
        lock = artifacts.read(folder / "lock.json", LockRecord)
    except ArtifactError:
        return None  # of another version of this project
    facts = unfinished_nights.facts(lock)
    same = lock.plan == night_lock.plan_digest(plan.rooted(f"{folder.as_posix()}/first"))
    return facts if same and facts.host == platform.node() and now - facts.started_at <= RESUME_WITHIN else None


def _over(folder: Path) -> bool:
    path = folder / "verdicts.json"
    return path.exists() and artifacts.read(path, VerdictsRecord).outcome is not Outcome.INTERRUPTED


def _accepted_changes() -> list[AcceptedChange]:
    if not accepted.FILE.exists():
        return []
    found = history_module.History().query("SELECT run_id, min(run_started_at) FROM history GROUP BY run_id").fetchall()
    return accepted.read(accepted.FILE, {run_id: at.replace(tzinfo=UTC) for run_id, at in found})


# ---------------------------------------------------------------- what it says


class _Conclusion:
    """Everything that is made of a night's rows."""

    def __init__(self, night: Night, rows: Sequence[HistoryRow]) -> None:
        from scripts import page

        self.night = night
        self.rows = [row for row in rows if row.measurement == 1]
        self.measured_again = {row.case_id for row in rows if row.measurement == 2}
        renamed = {alias: planned.case.id for planned in night.first.sweep() for alias in planned.case.aliases}
        history = history_module.History()
        self.past = page.past_of(history, night.run, rows, True, _accepted_changes(), renamed)
        self.judged: Mapping[str, Judgement] = {case: series.last for case, series in self.past.series.items()}

    def write(self) -> VerdictsRecord:
        """All files; verdicts.json last, since its presence says that the night is over."""
        from scripts import page
        from scripts.page_data import Shown

        night, folder = self.night, self.night.folder
        entries = [_entry(planned) for planned in night.first.sweep()]
        summary.run(entries, folder / "summary.md", folder / "summary.csv")
        rows = [summary.row_of(entry) for entry in entries]
        exports.write(folder, rows, self.judged, night.run.run_id, night.run.started_at)
        shown = Shown(night.run, self.rows, judged=True, config=night.plan.config_words)
        for target in (folder / "index.html", REPORTS / "index.html"):
            page.write(target, shown, self.past)
        record = self._record()
        artifacts.write(folder / "verdicts.json", record)
        night.concluded = True
        print(closing.text(rows, self.judged, f"{record.outcome}. Page: {REPORTS}/index.html, night: {folder}"))
        return record

    def _record(self) -> VerdictsRecord:
        cases = [_case_verdict(row, self.past.series[row.case_id]) for row in self.rows]
        suspicious = [case.case for case in cases if case.verdict is Verdict.SUSPICIOUS]
        again = [case for case in suspicious if case not in self.measured_again]
        cut_short = any(planned.case.id not in self.measured_again for planned in self.night.again)
        return VerdictsRecord(
            run_id=self.night.run.run_id,
            outcome=Outcome.INTERRUPTED if cut_short else _outcome(self.rows, cases),
            counts=dict(Counter(str(case.verdict) for case in cases)),
            statuses=dict(Counter(case.status for case in cases)),
            to_measure_again=again,
            problems=list(self.past.problems),
            cases=cases,
        )


def _case_verdict(row: HistoryRow, series: Series) -> CaseVerdict:
    last = series.last
    return CaseVerdict(
        case=row.case_id,
        status=row.status,
        device_model=row.device_model,
        e2e_us=row.e2e_us,
        verdict=last.verdict,
        detail=last.detail,
        baseline_us=last.baseline_us,
        change=last.change,
        smallest_change=last.smallest_change,
        since=last.since,
        new=last.new,
        drift=last.drift,
        changed_conditions=last.changed_conditions,
    )


def _outcome(rows: Sequence[HistoryRow], cases: Sequence[CaseVerdict]) -> Outcome:
    """The gravest thing that happened; a regression outweighs a failure, which the status shows anyway."""
    if any(row.interrupted for row in rows):
        return Outcome.INTERRUPTED
    if not any(row.status == Status.OK for row in rows):
        return Outcome.NOTHING
    if any(case.verdict is Verdict.REGRESSION for case in cases):
        return Outcome.REGRESSIONS
    good = all(row.status in (Status.OK, Status.SKIPPED) for row in rows)
    return Outcome.OK if good else Outcome.FAILED


def _entry(planned: PlannedCase) -> SummaryEntry:
    # reports/ shows the cache: a night's own numbers are in its page.
    return SummaryEntry.of(planned, planned.folder / "report.md")
