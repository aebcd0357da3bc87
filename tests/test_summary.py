"""The summary: one row per case whatever became of it, in the order of the configuration, families together."""

from __future__ import annotations

import csv
import io
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scripts import artifacts, summary
from scripts.artifacts import DeviceInfo, OutputRecord, PerfRecord, ProfileRecord
from scripts.errors import ArtifactError
from scripts.status import Status
from scripts.summary import SummaryEntry, SummaryRow
from tests.records import failure_record, perf_record, profile_record, spread


class Sweep:
    """A folder with results of cases, as a sweep leaves it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: list[SummaryEntry] = []

    def add(self, case: str, family: str = "attention", report: bool = True) -> SummaryEntry:
        folder = self.root / "prof" / case
        target = f"reports/{case}.md"
        entry = SummaryEntry(case, family, "p0", folder, self.root / target, f"snakemake -j1 {target}")
        if report:
            entry.report.parent.mkdir(parents=True, exist_ok=True)
            entry.report.write_text("# report")
        self.entries.append(entry)
        return entry

    def ok(self, case: str, total: str = "90.4", family: str = "attention", device: Any = None, **changes: Any) -> None:
        operator, name = case.split("/")
        entry = self.add(case, family)
        profile = profile_record(operator=operator, case=name, device=device)
        artifacts.write(
            entry.folder / "perf.json", perf_record(profile, ops=[("MatMulV2", "AI_CORE", 2, total)], **changes)
        )

    def failed(self, case: str, family: str = "attention", **changes: Any) -> SummaryEntry:
        operator, name = case.split("/")
        entry = self.add(case, family, report=False)
        artifacts.write(entry.folder / "failure.json", failure_record(operator, name, **changes))
        return entry

    def run(self) -> tuple[str, list[dict[str, str]]]:
        """The page, and the table's rows."""
        page, table = self.root / "reports/summary.md", self.root / "reports/summary.csv"
        summary.run(self.entries, page, table)
        return page.read_text(encoding="utf-8"), list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path)


def test_nine_ok_and_one_failed_are_ten_rows(sweep: Sweep) -> None:
    for i in range(9):
        sweep.ok(f"op_{i}/smoke")
    sweep.failed("broken_golden/smoke")
    page, rows = sweep.run()
    assert [row["status"] for row in rows] == ["ok"] * 9 + ["golden_failed"]
    assert "- **Cases**: 9 ok, 1 golden_failed of 10" in page
    assert page.count("](op_") == 9 + 5 + 5  # the table, the slowest and the noisiest
    assert "broken_golden/smoke: **golden_failed**. Golden function crashed on iteration 0" in page


def test_failed_case_has_reason_log_and_command(sweep: Sweep) -> None:
    sweep.failed(
        "softmax_golden/smoke",
        message="It broke | here.\nAnd `there`*.",
        log="logs/a.log",
        command="snakemake x",
        advice="Likely cause: An index.\nFix: Set `init`.",
    )
    page, rows = sweep.run()
    assert r"- softmax_golden/smoke: **golden_failed**. It broke \| here. And `there`\*." in page
    assert "  - Likely cause: An index.\n  - What to do: Set `init`.\n  - Log: " in page
    assert "  - Log: `logs/a.log`" in page
    assert "  - Reproduce: `snakemake x`" in page
    assert rows[0]["reason"] == "It broke | here. And `there`*."
    assert (rows[0]["likely_cause"], rows[0]["what_to_do"]) == ("An index.", "Set `init`.")
    assert (rows[0]["log"], rows[0]["command"], rows[0]["e2e_us"]) == ("logs/a.log", "snakemake x", "")


def test_a_long_reason_is_cut_to_one_line(sweep: Sweep) -> None:
    sweep.failed("softmax_golden/smoke", message="x" * 10_000)
    _, rows = sweep.run()
    assert rows[0]["reason"] == "x" * 300 + " …"


def test_first_columns_are_fixed_and_durations_exact(sweep: Sweep) -> None:
    sweep.ok("attention_golden/p0", total="1234567.891")
    page, rows = sweep.run()
    assert list(rows[0])[:5] == ["operator", "case", "status", "device", "e2e_us"]
    assert list(rows[0]) == list(SummaryRow.__dataclass_fields__)
    assert list(rows[0].values())[:5] == ["attention_golden", "p0", "ok", "npu:0", "1234567.891"]
    assert Decimal(rows[0]["min_us"]) == Decimal("1234567.891") * Decimal("0.99")
    assert (rows[0]["iterations"], rows[0]["kernels"], rows[0]["stand_in"]) == ("3", "2", "False")
    assert "1234567.891us" in page


def test_order_is_the_configurations_with_families_together(sweep: Sweep) -> None:
    for case, family in [("b/1", "norm"), ("a/1", "attention"), ("c/1", ""), ("a/2", "attention"), ("d/1", "norm")]:
        sweep.ok(case, family=family)
    page, rows = sweep.run()
    assert [f"{row['operator']}/{row['case']}" for row in rows] == ["b/1", "d/1", "a/1", "a/2", "c/1"]
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## norm", "## attention", "## other"]


def test_summary_does_not_depend_on_what_ran_first(sweep: Sweep) -> None:
    sweep.ok("a/1")
    sweep.failed("b/1")
    sweep.add("c/1")
    assert sweep.run() == sweep.run()


def test_case_without_any_result_was_not_run(sweep: Sweep) -> None:
    sweep.add("late_golden/smoke", report=False)
    sweep.entries.append(SummaryEntry("never_golden/smoke", "", "", Path("none"), Path("none.md"), ""))
    page, rows = sweep.run()
    assert [row["status"] for row in rows] == ["not_run", "not_run"]
    assert "  - Reproduce: `snakemake -j1 reports/late_golden/smoke.md`" in page
    assert "slowest" not in page


def test_failure_counts_before_an_older_result(sweep: Sweep) -> None:
    sweep.ok("attention_golden/smoke")
    artifacts.write(sweep.entries[0].folder / "failure.json", failure_record(status=Status.TIMEOUT))
    _, rows = sweep.run()
    assert (rows[0]["status"], rows[0]["e2e_us"]) == ("timeout", "")


def test_what_can_be_made_again_counts_as_damaged_whatever_is_wrong_with_it(tmp_path: Path) -> None:
    for name, record, damaged in (
        ("perf.json", PerfRecord, True),
        ("output.json", OutputRecord, True),
        ("profile.json", ProfileRecord, False),
    ):
        path = tmp_path / name
        for text in ('{"schema_version": 9999, "kind": "perf"}', f'{{"schema_version": 1, "kind": "{record.kind}"}}'):
            path.write_text(text)
            with pytest.raises(ArtifactError) as raised:
                artifacts.read(path, record)
            assert raised.value.damaged == (path if damaged else None)


def test_one_damaged_file_costs_only_its_own_row(sweep: Sweep) -> None:
    sweep.ok("a/1")
    sweep.ok("b/1")
    (sweep.entries[0].folder / "perf.json").write_text("{")
    _, rows = sweep.run()
    assert [row["status"] for row in rows] == ["unreadable", "ok"]
    assert "perf.json cannot be read" in rows[0]["reason"]


def test_skipped_is_not_failed(sweep: Sweep) -> None:
    sweep.failed("big_golden/p0", status=Status.SKIPPED, message="Inputs of 300 GiB are over the limit.")
    page, rows = sweep.run()
    assert rows[0]["status"] == "skipped"
    assert "## Skipped\n\n- big_golden/p0: Inputs of 300 GiB are over the limit." in page
    assert "## Without a result" not in page


def test_slowest_and_noisiest_are_named(sweep: Sweep) -> None:
    order = list(range(1, 9))
    random.Random(0).shuffle(order)
    for i in order:
        sweep.ok(f"op_{i}/smoke", total=str(i), device_total=spread(*[str(100 + j * (10 - i)) for j in range(5)]))
    page, _ = sweep.run()
    slowest, noisiest = page.split("| noisiest |")[0], page.split("| noisiest |")[1].split("##")[0]
    assert [line.split("]")[0] for line in slowest.splitlines() if "](" in line][1:] == [
        f"| [op_{i}/smoke" for i in (8, 7, 6, 5, 4)
    ]
    assert [line.split("]")[0] for line in noisiest.splitlines() if "](" in line] == [
        f"| [op_{i}/smoke" for i in (1, 2, 3, 4, 5)
    ]


def test_one_iteration_is_never_called_quiet(sweep: Sweep) -> None:
    sweep.ok("a/1", device_total=spread("5"))
    page, rows = sweep.run()
    assert "noisiest" not in page
    assert "| 5.0us | 5.0us | – |" in page
    assert rows[0]["iterations"] == "1"


def test_reports_are_linked_from_where_the_summary_lies(sweep: Sweep) -> None:
    sweep.ok("attention_golden/smoke")
    sweep.ok("softmax_golden/smoke")
    sweep.entries[1].report.unlink()
    page, rows = sweep.run()
    assert "| [attention_golden/smoke](attention_golden/smoke.md) |" in page
    assert "| softmax_golden/smoke |" in page
    assert "[summary.csv](summary.csv)" in page
    assert rows[1]["report"] == ""


def test_stand_in_is_said_at_the_top(sweep: Sweep) -> None:
    sweep.ok("a/1", device=DeviceInfo("npu", "npu:0", "Ascend910B3", stand_in=True))
    page, rows = sweep.run()
    assert "NO HARDWARE" in page.splitlines()[2]
    assert rows[0]["stand_in"] == "True"


def test_empty_sweep_is_a_header_and_a_page(sweep: Sweep) -> None:
    page, rows = sweep.run()
    assert rows == []
    assert "- **Cases**: none" in page
    assert (sweep.root / "reports/summary.csv").read_text().startswith("operator,case,status,device,e2e_us,family,tier")


def test_text_survives_the_table(sweep: Sweep) -> None:
    message = 'a,b "c" é\n=1+1 <script>'
    sweep.failed("a/1", message=message)
    page, rows = sweep.run()
    assert rows[0]["reason"] == 'a,b "c" é =1+1 <script>'
    assert "<script" not in page


def test_every_column_is_documented() -> None:
    text = (Path(__file__).parent.parent / "reports/README.md").read_text(encoding="utf-8")
    missing = [name for name in SummaryRow.__dataclass_fields__ if f"`{name}`" not in text]
    assert missing == []
