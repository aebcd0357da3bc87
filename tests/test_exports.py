"""What a sweep tells other programs: valid for their parsers, whatever the names and messages hold."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts import closing, exports, summary
from scripts.summary import SummaryRow
from scripts.verdicts import Judgement, Verdict

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = json.loads((ROOT / "docs/summary.schema.json").read_text())
AT = datetime(2026, 6, 12, 2, tzinfo=UTC)
OK = SummaryRow(
    "attention_golden", "p0", "ok", "npu:0", "245.30", "attention", "p0", "Ascend910B3", False, 3, "241.0", "250.5",
    "4.2", 0.017, "300.1", 0.8, "350", 7, 0, "2026-06-12T02:00:01+00:00", "key", "reports/attention_golden/p0.md",
    command="python -m scripts.profile prof/attention_golden/p0/key",
)  # fmt: skip
FAILED = SummaryRow("rms_norm_golden", "p0", "golden_failed", reason="IndexError: 7 is out of range", log="a.log")
SKIPPED = SummaryRow("big_golden", "p0", "skipped", reason="needs 900 GiB")
SLOWER = replace(OK, case="p1", e2e_us="300")
DRIFTING = replace(OK, case="p2")
ROWS = [OK, FAILED, SKIPPED, SLOWER, DRIFTING]
JUDGED = {
    OK.id: Judgement(Verdict.SAME, "Within 2.0 %.", 245.0, 0.001, 0.02),
    FAILED.id: Judgement(Verdict.NO_RESULT, "The case has no result this night."),
    SLOWER.id: Judgement(Verdict.REGRESSION, "+22.3 % | on two nights", 245.3, 0.223, 0.02, "run", True),
    DRIFTING.id: Judgement(Verdict.SAME, "Within 2.0 %.", 245.0, 0.001, 0.02, drift=0.08),
}


def test_summary_json_keeps_its_schema_and_the_exact_digits() -> None:
    text = exports.to_json(ROWS, JUDGED, "run", AT)
    body = json.loads(text)
    jsonschema.validate(body, SCHEMA)
    assert '"e2e_us": 245.30' in text
    assert [case["status"] for case in body["cases"]] == [row.status for row in ROWS]
    assert body["cases"][1]["e2e_us"] is None
    assert body["cases"][3]["verdict"]["word"] == "regression"


def test_junit_counts_failures_skips_and_regressions() -> None:
    root = ET.fromstring(exports.to_junit(ROWS, JUDGED))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "2", "0")
    wanted = {"name", "tests", "failures", "errors"}  # of every suite, by the schema of Jenkins' xUnit plugin
    assert all(wanted <= set(suite.keys()) for suite in root.iter("testsuite"))
    failures = {f"{case.get('classname')}/{case.get('name')}": case.find("failure") for case in root.iter("testcase")}
    kinds = {case: failure.get("type") for case, failure in failures.items() if failure is not None}
    assert kinds == {FAILED.id: "golden_failed", SLOWER.id: "regression"}
    (skipped,) = root.iter("skipped")
    assert skipped.get("message") == SKIPPED.reason
    assert next(root.iter("testcase")).get("time") == "0.0002453"


def test_a_number_with_warnings_is_marked_wherever_it_stands_without_its_report() -> None:
    doubtful = replace(OK, warnings=2)
    (case,) = ET.fromstring(exports.to_junit([doubtful], {})).iter("testcase")
    told = case.findtext("system-out") or ""
    assert "⚠ 2 warnings" in told and "reports/attention_golden/p0.md" in told
    assert not list(ET.fromstring(exports.to_junit([OK], {})).iter("system-out"))
    shown = closing.text([doubtful, SLOWER], {}, "")
    assert "With warnings: 1 of 2 results" in shown
    assert "Slowest: attention_golden/p1 300.0us, attention_golden/p0 245.3us (⚠ 2 warnings)" in shown
    page = summary.render([doubtful, SLOWER], Path("reports"), "summary.csv")
    marked = [line for line in page.splitlines() if "⚠" in line]
    assert [line.count("⚠ 2") for line in marked] == [1, 1, 1], page  # slowest, noisiest, its family
    assert all("p0" in line for line in marked)


def test_the_ci_summary_lists_what_to_look_at_gravest_first() -> None:
    text = exports.to_markdown(ROWS, JUDGED, "run")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [FAILED.id, SLOWER.id, DRIFTING.id]
    assert "+22.3 % \\| on two nights" in rows[1]
    assert "slow drift" in rows[2]
    assert "Nothing to look at." in exports.to_markdown([OK], {}, "")
    assert "\n1 case: 1 ok.\n" in exports.to_markdown([OK], {}, "")
    assert "\n1 case: 1 ok\n" in closing.text([OK], {}, "")


def test_prometheus_has_seconds_and_labels() -> None:
    text = exports.to_prometheus(ROWS, JUDGED, AT)
    labels = '{operator="attention_golden",case="p0",family="attention",device_model="Ascend910B3"}'
    assert f"goldenprof_case_e2e_seconds{labels} 0.0002453" in text
    assert 'goldenprof_cases{status="golden_failed"} 1' in text
    assert f"goldenprof_run_start_time_seconds {AT.timestamp():.3f}" in text


def test_the_terminal_ends_with_failures_findings_and_the_slowest() -> None:
    lines = closing.text(ROWS, JUDGED, "Page: reports/index.html").splitlines()
    assert lines[1] == "5 cases: 3 ok, 1 golden_failed, 1 skipped"
    assert "rms_norm_golden/p0  golden_failed: IndexError" in lines[3]
    assert "attention_golden/p1  regression: +22.3 %" in lines[4]
    assert lines[-2] == "Slowest: attention_golden/p1 300.0us, attention_golden/p0 245.3us, attention_golden/p2 245.3us"


SAMPLE = re.compile(r'goldenprof_\w+(\{(\w+="([^"\\\n]|\\\\|\\"|\\n)*",?)*\})? [-+0-9.e]+')


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_breaks_any_format(reason: str, model: str) -> None:
    rows = [replace(FAILED, reason=reason, device_model=model), replace(OK, device_model=model)]
    jsonschema.validate(json.loads(exports.to_json(rows, {}, "", AT)), SCHEMA)
    ET.fromstring(exports.to_junit(rows, {}))
    lines = exports.to_prometheus(rows, {}, AT).splitlines()
    samples = [line for line in exports.to_prometheus(rows, {}, AT).split("\n") if line and not line.startswith("#")]
    assert lines
    assert all(SAMPLE.fullmatch(sample) for sample in samples)
    table = [line for line in exports.to_markdown(rows, {}, "").split("\n") if line.startswith("|")]
    assert len(table) == 3
