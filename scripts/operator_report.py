"""The report of one operator: all its cases in one file, with one Performance Summary over them."""

from __future__ import annotations

import shlex
import urllib.parse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from scripts import artifacts, peaks, roofline, work
from scripts.artifacts import PerfRecord
from scripts.case_section import CaseSection, case_section, warnings
from scripts.errors import ArtifactError
from scripts.formatting import Markdown, link, md, percent, plural, template, us
from scripts.peaks import PeaksRecord
from scripts.plan import PlannedCase
from scripts.report import notes, status_detail, title
from scripts.report_files import operator_page
from scripts.report_tables import SpreadLine, spread_decimals, spread_line


@dataclass(frozen=True)
class CaseLine:
    """One case in the tables over all cases, as printed."""

    link: Markdown
    spread: SpreadLine
    span: str
    busy: str
    host_wall: str
    status: str
    status_detail: str


@dataclass(frozen=True)
class CaseWarnings:
    """One case's warnings."""

    case: str
    warnings: list[str]


def write(cases: Sequence[PlannedCase], tail: str) -> None:
    """The report of the operator whose cases these are, in reports/."""
    operator = cases[0].case.operator
    perfs = [planned.folder / "perf.json" for planned in cases]
    run(operator, perfs, operator_page(operator), tail, cases[0].config)


def run(operator: str, perf_jsons: Sequence[Path], target: Path, tail: str = "", config: str = "") -> None:
    """Write the report over `perf_jsons`, all of `operator`, then `tail`, to `target`, and its roofline beside it."""
    records = [artifacts.read(path, PerfRecord) for path in perf_jsons]
    limits = [peaks.read_of(record.profile.key) for record in records]
    text = render(operator, records, limits, config)
    works = [work.work_of(record, limit) for record, limit in zip(records, limits, strict=True)]
    roofline.write(operator, works, target.with_name(f"{operator}.roofline.svg"))
    artifacts.write_bytes(target, (text + tail).encode())


def render(
    operator: str, records: Sequence[PerfRecord], limits: Sequence[PeaksRecord | None] = (), config: str = ""
) -> str:
    """The report of `operator` as Markdown; cases in the order given, each with the peaks of its device if there are.

    `config` is what its commands give Snakemake before a target.

    Raises CaseFailure when a case has nothing to report, ArtifactError without cases or with another operator's.
    """
    strangers = [record.profile.operator for record in records if record.profile.operator != operator]
    if strangers or not records:
        given = f"a case of {strangers[0]}" if strangers else "no case"
        raise ArtifactError(
            f"The report of {operator} was given {given}; it needs one perf.json or more of {operator}."
        )
    limits = limits or [None] * len(records)
    sections = [case_section(record) for record in records]
    profiles = [record.profile for record in records]
    warned = [CaseWarnings(record.profile.case, found) for record in records if (found := warnings(record))]
    if differing := _differences(records):
        warned.insert(0, CaseWarnings("all cases", differing))
    names = [f"{operator}/{profile.case}" for profile in profiles]
    return template("operator_report.md.j2").render(
        title=title(operator, "/".join(dict.fromkeys(profile.device.kind for profile in profiles))),
        stand_in=any(profile.device.stand_in for profile in profiles),
        model=", ".join(dict.fromkeys(profile.device.model for profile in profiles if profile.device.stand_in)),
        device=", ".join(dict.fromkeys(profile.device.name for profile in profiles)),
        timestamp=" to ".join(
            dict.fromkeys([order((p.started_at for p in profiles), key=datetime.fromisoformat) for order in (min, max)])
        ),
        iterations=_per_case([(profile.case, str(profile.iterations)) for profile in profiles]),
        warned=warned,
        warnings_title=plural(sum(len(item.warnings) for item in warned), "warning"),
        cases=sections,
        notes=_merged_notes(records, limits),
        work=work.section(
            [work.work_of(record, limit) for record, limit in zip(records, limits, strict=True)],
            list({limit.device.model: limit for limit in limits if limit}.values()),
        ),
        roofline=Markdown(f"![Roofline]({urllib.parse.quote(operator)}.roofline.svg)"),
        lines=[_case_line(record, section) for record, section in zip(records, sections, strict=True)],
        remake="\n".join(f"snakemake -j1 {config}{shlex.quote(f'reports/{name}.md')}" for name in (operator, *names)),
    )


def _case_line(record: PerfRecord, section: CaseSection) -> CaseLine:
    profile = record.profile
    return CaseLine(
        link=link(profile.case, f"{profile.operator}/{profile.case}.md"),
        spread=spread_line(profile.case, record.device_total, spread_decimals([record.device_total], section.decimals)),
        span=us(record.device_span.median_us, section.decimals),
        busy=percent(record.busy_share),
        host_wall=us(record.host_wall.median_us, 1) if record.host_wall else "–",
        status=record.status,
        status_detail=status_detail(record),
    )


def _merged_notes(records: Sequence[PerfRecord], limits: Sequence[PeaksRecord | None]) -> list[Markdown]:
    """Each note once; where cases differ, with the cases that it is true of."""
    cases_of: dict[Markdown, list[str]] = defaultdict(list)
    columns = (notes(record, limit) for record, limit in zip(records, limits, strict=True))
    for column in zip(*columns, strict=True):
        for record, note in zip(records, column, strict=True):
            cases_of[note].append(record.profile.case)
    return [
        note if len(cases) == len(records) else Markdown(f"{note} ({md(', '.join(cases))})")
        for note, cases in cases_of.items()
    ]


def _differences(records: Sequence[PerfRecord]) -> list[str]:
    """What makes the cases of one report unequal in more than their inputs."""
    found = []
    profiles = [record.profile for record in records]
    facts = {"device model": [profile.device.model for profile in profiles], "cache": [p.cache for p in profiles]}
    for version in dict.fromkeys(version for profile in profiles for version in profile.versions):
        facts[version] = [profile.versions.get(version, "none") for profile in profiles]
    for fact, values in facts.items():
        if len(set(values)) > 1:
            listed = _per_case([(profile.case, value) for profile, value in zip(profiles, values, strict=True)])
            found.append(f"The cases differ in {fact}, so their times are not comparable: {listed}.")
    return found


def _per_case(values: list[tuple[str, str]]) -> str:
    """The one value that all cases share, or each case's own."""
    distinct = {value for _, value in values}
    return distinct.pop() if len(distinct) == 1 else ", ".join(f"{case}: {value}" for case, value in values)
