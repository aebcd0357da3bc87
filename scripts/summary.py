"""The summary of a sweep: one row per case, whatever became of it, as a page and as a table."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from scripts import artifacts, diagnosis, outcomes
from scripts.artifacts import PerfRecord
from scripts.case_section import warnings
from scripts.formatting import Markdown, link, md, one_line, percent, plural, template, us
from scripts.outcomes import CaseOutcome
from scripts.plan import PlannedCase
from scripts.report_files import SUMMARY
from scripts.status import Status

MOST_NAMED = 5  # slowest and noisiest cases
MOST_REASON = 300  # characters of a reason


@dataclass(frozen=True)
class SummaryEntry:
    """One case of the sweep, the folder of its artifacts, and where its report would be."""

    case: str  # "<operator>/<case>"
    family: str
    tier: str
    folder: Path
    report: Path
    command: str  # makes it
    planned: PlannedCase | None = None  # says whether a result is up to date

    @cached_property
    def outcome(self) -> CaseOutcome:
        """What became of it, read once."""
        return outcomes.of(self.planned) if self.planned else outcomes.read(self.folder)

    @classmethod
    def of(cls, planned: PlannedCase, report: Path) -> SummaryEntry:
        """The entry of a planned case."""
        case = planned.case
        return cls(case.id, case.family, case.tier, planned.folder, report, planned.command)


@dataclass(frozen=True)
class SummaryRow:
    """One line of summary.csv, its fields in the order of the columns; "" and None where there is no result."""

    operator: str
    case: str
    status: str
    device: str = ""
    e2e_us: str = ""
    family: str = ""
    tier: str = ""
    device_model: str = ""
    stand_in: bool | None = None
    iterations: int | None = None
    min_us: str = ""
    max_us: str = ""
    iqr_us: str = ""
    relative_iqr: float | None = None
    device_span_us: str = ""
    busy_share: float | None = None
    host_wall_us: str = ""
    kernels: int | None = None
    warnings: int | None = None
    started_at: str = ""
    key: str = ""
    report: str = ""
    reason: str = ""
    log: str = ""
    command: str = ""
    likely_cause: str = ""
    what_to_do: str = ""

    @property
    def id(self) -> str:
        """`<operator>/<case>`."""
        return f"{self.operator}/{self.case}"

    @property
    def caution(self) -> str:
        """What stands beside its numbers where they are shown without their report: " (⚠ 1 warning)", or ""."""
        return f" (⚠ {plural(self.warnings, 'warning')})" if self.warnings else ""


@dataclass(frozen=True)
class CaseLine:
    """One case of a family's table, as printed."""

    name: Markdown
    tier: str
    status: Markdown
    device: str
    e2e: str
    low: str
    high: str
    relative: str
    host_wall: str
    kernels: str
    warnings: str


@dataclass(frozen=True)
class Family:
    """One family's table."""

    name: str
    status: str
    lines: list[CaseLine]


@dataclass(frozen=True)
class Named:
    """A case that is named for one of its numbers."""

    name: Markdown
    value: str


def entries(cases: Sequence[PlannedCase]) -> list[SummaryEntry]:
    """Those of a sweep, in which a result that is out of date counts as none."""
    return [replace(SummaryEntry.of(planned, planned.report), planned=planned) for planned in cases]


def write(cases: Sequence[PlannedCase], tail: str) -> None:
    """The sweep's summary of these cases, in reports/."""
    run(entries(cases), SUMMARY, SUMMARY.with_suffix(".csv"), tail)


def run(entries: Sequence[SummaryEntry], markdown: Path, table: Path, tail: str = "") -> None:
    """Write the summary of `entries` as Markdown, with `tail` after it, and as CSV, failed and unfinished cases too.

    Order: as given, families together, each where its first case stands.
    """
    rows = [row_of(entry) for entry in _by_family(entries)]
    artifacts.write_bytes(table, to_csv(rows).encode())
    artifacts.write_bytes(markdown, (render(rows, markdown.parent, table.name) + tail).encode())


def row_of(entry: SummaryEntry) -> SummaryRow:
    """What became of one case."""
    outcome = entry.outcome
    if outcome.perf:
        return _measured(entry, outcome.perf)
    operator, _, case = entry.case.partition("/")
    failure = outcome.failure
    cause, fix = diagnosis.cause_and_fix(failure) if failure else ("", "")
    return SummaryRow(
        operator,
        case,
        outcome.status,
        family=entry.family,
        tier=entry.tier,
        key=failure.key if failure else "",
        reason=_shortened(outcome.reason),
        log=failure.log if failure else "",
        command=(failure and failure.command) or entry.command,
        likely_cause=one_line(cause),
        what_to_do=one_line(fix),
    )


def _measured(entry: SummaryEntry, perf: PerfRecord) -> SummaryRow:
    profile, total = perf.profile, perf.device_total
    return SummaryRow(
        operator=profile.operator,
        case=profile.case,
        status=str(perf.status),
        device=profile.device.name,
        e2e_us=_exact(perf.e2e_us),
        family=entry.family,
        tier=entry.tier,
        device_model=profile.device.model,
        stand_in=profile.device.stand_in,
        iterations=total.n,
        min_us=_exact(total.min_us),
        max_us=_exact(total.max_us),
        iqr_us=_exact(total.iqr_us),
        relative_iqr=total.relative_iqr,
        device_span_us=_exact(perf.device_span.median_us),
        busy_share=perf.busy_share,
        host_wall_us=_exact(perf.host_wall.median_us) if perf.host_wall else "",
        kernels=sum(row.count for row in perf.ops),
        warnings=len(warnings(perf)),
        started_at=profile.started_at,
        key=profile.key,
        report=entry.report.as_posix() if entry.report.exists() else "",
        command=profile.command,
    )


def to_csv(rows: Sequence[SummaryRow]) -> str:
    """The rows as CSV with a header; durations are exact decimals, not floats."""
    import pandas  # half a second: not where Snakemake starts

    fields = list(SummaryRow.__dataclass_fields__)
    frame = pandas.DataFrame([asdict(row) for row in rows], columns=fields)
    counts = dict.fromkeys(("iterations", "kernels", "warnings"), "Int64")  # integers that may be missing
    return str(frame.astype(counts).to_csv(index=False, lineterminator="\n"))


def render(rows: Sequence[SummaryRow], folder: Path, table: str) -> str:
    """The rows as a Markdown page that lies in `folder`, from which its links lead, beside the CSV named `table`."""
    good = [row for row in rows if row.status == Status.OK]
    slowest = sorted(good, key=lambda row: -Decimal(row.e2e_us))[:MOST_NAMED]
    repeated = [row for row in good if row.relative_iqr is not None and (row.iterations or 0) > 2]
    noisiest = sorted(repeated, key=lambda row: -(row.relative_iqr or 0))[:MOST_NAMED]
    return template("summary.md.j2").render(
        table=link(table, table),
        statuses=_counted(rows),
        devices=", ".join(dict.fromkeys(f"{row.device} ({row.device_model})" for row in rows if row.device)),
        stand_in=any(row.stand_in for row in rows),
        model=", ".join(dict.fromkeys(row.device_model for row in rows if row.stand_in)),
        slowest=[Named(_name(row, folder), us(Decimal(row.e2e_us)) + row.caution) for row in slowest],
        noisiest=[Named(_name(row, folder), percent(row.relative_iqr or 0) + row.caution) for row in noisiest],
        failed=[row for row in rows if row.status not in (Status.OK, Status.SKIPPED)],
        skipped=[row for row in rows if row.status == Status.SKIPPED],
        families=[
            Family(name or "other", _counted(members), [_line(row, folder) for row in members])
            for name in dict.fromkeys(row.family for row in rows)
            if (members := [row for row in rows if row.family == name])
        ],
    )


def _line(row: SummaryRow, folder: Path) -> CaseLine:
    measured = bool(row.e2e_us)
    return CaseLine(
        name=_name(row, folder),
        tier=row.tier,
        status=md(row.status) if row.status == Status.OK else Markdown(f"**{md(row.status)}**"),
        device=row.device or "–",
        e2e=us(Decimal(row.e2e_us)) if measured else "–",
        low=us(Decimal(row.min_us)) if measured else "–",
        high=us(Decimal(row.max_us)) if measured else "–",
        relative=percent(row.relative_iqr) if row.relative_iqr is not None and (row.iterations or 0) > 1 else "–",
        host_wall=us(Decimal(row.host_wall_us), 1) if row.host_wall_us else "–",
        kernels=str(row.kernels) if measured else "–",
        warnings=f"⚠ {row.warnings}" if measured and row.warnings else "",
    )


def _name(row: SummaryRow, folder: Path) -> Markdown:
    return link(row.id, Path(os.path.relpath(row.report, folder)).as_posix()) if row.report else md(row.id)


def _by_family(entries: Sequence[SummaryEntry]) -> list[SummaryEntry]:
    rank = {name: i for i, name in enumerate(dict.fromkeys(entry.family for entry in entries))}
    return sorted(entries, key=lambda entry: rank[entry.family])


def _counted(rows: Sequence[SummaryRow]) -> str:
    """How many cases ended how: "9 ok, 1 golden_failed of 10"; ok first, then the most frequent."""
    counts = Counter(row.status for row in rows)
    ranked = sorted(counts, key=lambda status: (status != Status.OK, -counts[status], status))
    return ", ".join(f"{counts[status]} {status}" for status in ranked) + (
        f" of {len(rows)}" if len(ranked) > 1 else ""
    )


def _exact(value: Decimal) -> str:
    return f"{value:f}"


def _shortened(line: str) -> str:
    return line if len(line) <= MOST_REASON else f"{line[:MOST_REASON]} …"
