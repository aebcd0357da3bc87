"""A sweep for other programs: JSON, JUnit XML, a Markdown summary for CI, and a text file for Prometheus.

All are made from the rows of summary.csv and, for a night, from its verdicts by case id.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from scripts import artifacts
from scripts.formatting import md, one_line, percent, plural, us
from scripts.status import Status
from scripts.summary import SummaryRow
from scripts.verdicts import Judgement, Verdict

# Of summary.json (docs/summary.schema.json); raised when a field changes its meaning or goes, not when one is added.
SCHEMA_VERSION = 1
SUITE = "goldenprof"
MOST_LISTED = 50  # findings in the CI summary: GitHub shows 1 MiB of it
DECIMALS = ("e2e_us", "min_us", "max_us", "iqr_us", "device_span_us", "host_wall_us")
NAMES = {"json": "summary.json", "junit": "junit.xml", "ci": "ci.md", "prometheus": "goldenprof.prom"}

Judgements = Mapping[str, Judgement]


def write(folder: Path, rows: Sequence[SummaryRow], judged: Judgements, run_id: str, at: datetime) -> None:
    """Write all four into `folder`; `at` is when the run began, `run_id` "" where it is no night."""
    texts = {
        "json": to_json(rows, judged, run_id, at),
        "junit": to_junit(rows, judged),
        "ci": to_markdown(rows, judged, run_id),
        "prometheus": to_prometheus(rows, judged, at),
    }
    for kind, text in texts.items():
        artifacts.write_bytes(folder / NAMES[kind], text.encode("utf-8", "replace"))


def to_json(rows: Sequence[SummaryRow], judged: Judgements, run_id: str, at: datetime) -> str:
    """The rows with their verdicts; durations are exact decimal numbers, what is not known is null."""
    body = {
        "schema_version": SCHEMA_VERSION,
        "kind": "summary",
        "run_id": run_id,
        "started_at": at.isoformat(),
        "cases": [_json_case(row, judged.get(row.id)) for row in rows],
    }
    text = msgspec.json.Encoder(decimal_format="number").encode(body)
    return msgspec.json.format(text, indent=1).decode() + "\n"


def _json_case(row: SummaryRow, judgement: Judgement | None) -> dict[str, Any]:
    fields = asdict(row)
    for name in DECIMALS:
        fields[name] = Decimal(fields[name]) if fields[name] else None
    return {**fields, "verdict": _json_verdict(judgement) if judgement else None}


def _json_verdict(judgement: Judgement) -> dict[str, Any]:
    fields = asdict(judgement)
    return {"word": str(fields.pop("verdict")), **fields}


def to_junit(rows: Sequence[SummaryRow], judged: Judgements) -> str:
    """One test suite per operator; a case that did not end `ok`, or is a regression, is a failure."""
    root = ET.Element("testsuites", {"name": SUITE, **_junit_counts(rows, judged)})
    for operator in dict.fromkeys(row.operator for row in rows):
        mine = [row for row in rows if row.operator == operator]
        skipped = str(sum(row.status == Status.SKIPPED for row in mine))
        counts = {"name": operator, "skipped": skipped, **_junit_counts(mine, judged)}
        suite = ET.SubElement(root, "testsuite", counts)
        for row in mine:
            _junit_case(suite, row, judged.get(row.id))
    target = io.BytesIO()
    ET.indent(root)
    ET.ElementTree(root).write(target, encoding="utf-8", xml_declaration=True)
    return target.getvalue().decode() + "\n"


def _junit_counts(rows: Sequence[SummaryRow], judged: Judgements) -> dict[str, str]:
    """Attributes that the schema of Jenkins' xUnit plugin wants; what fails here is a failure, never an error."""
    return {"tests": str(len(rows)), "failures": str(len(_failing(rows, judged))), "errors": "0"}


def _junit_case(suite: ET.Element, row: SummaryRow, judgement: Judgement | None) -> None:
    time = f"{Decimal(row.e2e_us) / 1_000_000:f}" if row.e2e_us else "0"
    case = ET.SubElement(suite, "testcase", classname=row.operator, name=row.case, time=time)
    if row.status == Status.SKIPPED:
        ET.SubElement(case, "skipped", message=_xml(row.reason))
    elif row.status != Status.OK:
        failure = ET.SubElement(case, "failure", type=row.status, message=_xml(row.reason))
        failure.text = _xml(f"{row.reason}\nLog: {row.log}\nReproduce: {row.command}")
    elif judgement and judgement.verdict is Verdict.REGRESSION:
        failure = ET.SubElement(case, "failure", type="regression", message=_xml(judgement.detail))
        failure.text = _xml(f"{judgement.detail}\nReproduce: {row.command}")
    if row.caution:
        told = f"{row.id}{row.caution}: read them in {row.report or 'its report'} before using the time."
        ET.SubElement(case, "system-out").text = _xml(told)


def _failing(rows: Sequence[SummaryRow], judged: Judgements) -> list[SummaryRow]:
    return [row for row in rows if row.status not in (Status.OK, Status.SKIPPED) or _regressed(row, judged)]


def _regressed(row: SummaryRow, judged: Judgements) -> bool:
    return row.status == Status.OK and row.id in judged and judged[row.id].verdict is Verdict.REGRESSION


def to_markdown(rows: Sequence[SummaryRow], judged: Judgements, run_id: str) -> str:
    """For $GITHUB_STEP_SUMMARY: counts, then what a reader has to look at, failures and regressions first."""
    statuses = ", ".join(f"{count} {status}" for status, count in Counter(row.status for row in rows).most_common())
    lines = [
        f"## Golden performance{f', night {md(run_id)}' if run_id else ''}",
        "",
        f"{plural(len(rows), 'case')}: {statuses}.",
    ]
    if judged:
        words = Counter(str(judgement.verdict) for judgement in judged.values())
        lines.append(f"Verdicts: {', '.join(f'{count} {word}' for word, count in words.most_common())}.")
    found = findings(rows, judged)
    if not found:
        return "\n".join([*lines, "", "Nothing to look at.", ""])
    lines += ["", "| Case | Finding | E2E | Change | Why |", "| --- | --- | ---: | ---: | --- |"]
    lines += [_markdown_row(row, judged.get(row.id)) for row in found[:MOST_LISTED]]
    if len(found) > MOST_LISTED:
        lines += ["", f"… and {len(found) - MOST_LISTED} more, in summary.json."]
    return "\n".join([*lines, ""])


def findings(rows: Sequence[SummaryRow], judged: Judgements) -> list[SummaryRow]:
    """The rows that somebody should look at: failures, then regressions, suspicions, and the rest that is news."""
    order = (Verdict.REGRESSION, Verdict.SUSPICIOUS, Verdict.CHANGED_IDENTITY, Verdict.IMPROVEMENT)

    def rank(row: SummaryRow) -> int | None:
        if row.status not in (Status.OK, Status.SKIPPED):
            return -1
        judgement = judged.get(row.id)
        if judgement and judgement.verdict in order:
            return order.index(judgement.verdict)
        return len(order) if judgement and judgement.drift is not None else None

    ranked = [(rank(row), row) for row in rows]
    return [row for _, row in sorted(((r, row) for r, row in ranked if r is not None), key=lambda pair: pair[0])]


def _markdown_row(row: SummaryRow, judgement: Judgement | None) -> str:
    e2e = us(Decimal(row.e2e_us)) if row.e2e_us else "–"
    if row.status != Status.OK or judgement is None:
        return f"| {md(row.id)} | **{md(row.status)}** | {e2e} | – | {md(row.reason)} |"
    change = "–" if judgement.change is None else f"{100 * judgement.change:+.1f} %"
    news = judgement.verdict if judgement.verdict is not Verdict.SAME else "slow drift"
    drift = "" if judgement.drift is None else f" Recent level {percent(judgement.drift)} above the best earlier one."
    return f"| {md(row.id)} | **{news}** | {e2e} | {change} | {md(judgement.detail + drift)} |"


def to_prometheus(rows: Sequence[SummaryRow], judged: Judgements, at: datetime) -> str:
    """Text format for node_exporter's textfile collector; base units, so seconds."""
    metrics: list[tuple[str, str, list[tuple[dict[str, str], str]]]] = [
        ("run_start_time_seconds", "When the run began.", [({}, f"{at.timestamp():.3f}")]),
        ("cases", "Cases by how they ended.", [({"status": name}, str(count)) for name, count in _counts(rows)]),
        (
            "case_e2e_seconds",
            "Median device total of one iteration.",
            [(_labels(row), f"{Decimal(row.e2e_us) / 1_000_000:f}") for row in rows if row.e2e_us],
        ),
        ("case_ok", "1 where the case has a result, else 0.", [(_labels(row), str(int(_ok(row)))) for row in rows]),
        (
            "case_change_ratio",
            "Tonight against the baseline, minus 1.",
            [(_labels(row), repr(change)) for row in rows if (change := _change(row, judged)) is not None],
        ),
        (
            "case_regression",
            "1 where the case is slower than its baseline and nobody accepted it.",
            [(_labels(row), str(int(_regressed(row, judged)))) for row in rows if row.id in judged],
        ),
    ]
    lines = []
    for name, text, samples in metrics:
        if samples:
            lines += [f"# HELP {SUITE}_{name} {text}", f"# TYPE {SUITE}_{name} gauge"]
            lines += [f"{SUITE}_{name}{_written(labels)} {value}" for labels, value in samples]
    return "\n".join([*lines, ""])


def _counts(rows: Sequence[SummaryRow]) -> list[tuple[str, int]]:
    return sorted(Counter(row.status for row in rows).items())


def _ok(row: SummaryRow) -> bool:
    return row.status == Status.OK


def _change(row: SummaryRow, judged: Judgements) -> float | None:
    return judged[row.id].change if row.id in judged else None


def _labels(row: SummaryRow) -> dict[str, str]:
    return {"operator": row.operator, "case": row.case, "family": row.family, "device_model": row.device_model}


def _written(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    pairs = (f'{name}="{"".join(escapes.get(c, c) for c in value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _xml(text: str) -> str:
    """`text` without what XML 1.0 cannot hold, not even escaped."""
    shown = "\n".join(one_line(line) for line in text.splitlines())
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "�", shown)
