"""The main job on real input: one case, one operator, everything; what is made again and what is not."""

from __future__ import annotations

import csv
import re
import shlex
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from scripts import exports, report_files, staleness
from tests.workflow.conftest import ROOT, Project

CASES = """
    defaults: {warmup: 1, iterations: 3, noise_mib: 8}
    operators:
      attention_golden:
        golden: attention/attention_golden.py
        mode: A
        cases:
          perf_p0_small:
            iterations: 10
            noise_mib: 480
            inputs:
              q: {shape: [2, 8, 512, 64], dtype: bfloat16}
              k: {shape: [2, 8, 512, 64], dtype: bfloat16}
              v: {shape: [2, 8, 512, 64], dtype: bfloat16}
      softmax_golden:
        golden: golden/small_golden.py
        function: softmax_golden
        mode: A
        cases:
          once: {iterations: 1, inputs: {x: {shape: [64, 256], dtype: float32}}}
          thrice: {iterations: 3, inputs: {x: {shape: [64, 256], dtype: float32}}}
          tenfold: {iterations: 10, inputs: {x: {shape: [64, 256], dtype: float32}}}
      factory_golden:
        golden: golden/factory_golden.py
        mode: B
        cases: {good: {}}
"""
MAIN = "attention_golden/perf_p0_small"
AMOUNT = re.compile(r"([\d.]+)us")


@pytest.fixture(scope="module")
def swept(shared_project: Callable[[str], Project]) -> Project:
    project = shared_project("swept")
    shutil.copytree(ROOT / "golden/attention", project.path / "attention")
    project.cases(CASES)
    project.first = project.run("-j1")
    return project


def test_a_sweep_makes_every_report_and_the_summary(swept: Project) -> None:
    assert swept.first.code == 0, swept.first.output
    assert swept.first.finished.count("profile") == 5
    with (swept.path / "reports/summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [f"{row['operator']}/{row['case']}" for row in rows] == [
        MAIN,
        "softmax_golden/once",
        "softmax_golden/thrice",
        "softmax_golden/tenfold",
        "factory_golden/good",
    ]
    assert {row["status"] for row in rows} == {"ok"}
    assert all(Decimal(row["e2e_us"]) > 0 for row in rows)


def test_the_printed_total_is_the_sum_of_the_printed_op_table(swept: Project) -> None:
    text = swept.report(MAIN)
    total = re.search(r"\*\*Total kernel duration\*\*: ([\d.]+)us", text)[1]
    table = text.split("### Op Performance")[1].split("\n## ")[0]
    totals = [AMOUNT.findall(line)[-1] for line in table.splitlines() if AMOUNT.search(line)]
    assert len(totals) >= 3
    assert sum(map(Decimal, totals)) == Decimal(total)
    assert total == str(swept.perf(MAIN).e2e_us.quantize(Decimal(total)))


def test_the_report_names_the_device_that_was_measured(swept: Project) -> None:
    assert swept.report(MAIN).startswith("# attention Golden CPU Performance Report\n\n- **Device**: cpu\n")


def test_the_ops_reduce_max_is_counted_once_an_iteration_and_the_noise_never(swept: Project) -> None:
    for name, iterations in (("once", 1), ("thrice", 3), ("tenfold", 10)):
        perf = swept.perf(f"softmax_golden/{name}")
        counts = {row.op: row.count for row in perf.ops}
        assert counts["aten::amax"] == 1
        assert "aten::max" not in counts
        assert len(perf.iterations) == iterations
        noise = [row for row in perf.dropped if row.op == "aten::max"]
        assert len(noise) == iterations
        assert {row.input_shapes for row in noise} == {"2097152"}


def test_e2e_is_of_one_iteration_however_many_there_are(swept: Project) -> None:
    perfs = [swept.perf(f"softmax_golden/{name}") for name in ("once", "thrice", "tenfold")]
    for perf in perfs:
        totals = sorted(iteration.device_total_us for iteration in perf.iterations)
        assert totals[0] <= perf.e2e_us <= totals[-1]
    assert len({sum(row.count for row in perf.ops) for perf in perfs}) == 1


def test_the_capture_is_what_ascend_tools_look_for(swept: Project) -> None:
    folder = swept.folder(MAIN)
    (capture,) = folder.glob("*_ascend_pt")
    output = capture / "ASCEND_PROFILER_OUTPUT"
    with (output / "kernel_details.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["Step Id"] for row in rows} == {str(step) for step in range(1, 11)}
    assert {"Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Input Shapes"} <= set(rows[0])
    assert (output / "op_statistic.csv").exists()


def test_a_second_run_has_nothing_to_do(swept: Project) -> None:
    run = swept.run("-j1", f"reports/{MAIN}.md")
    assert run.code == 0
    assert run.nothing_to_do


def test_removing_the_reports_profiles_nothing(swept: Project) -> None:
    shutil.rmtree(swept.path / "reports")
    run = swept.run("-j1")
    assert run.code == 0
    assert set(run.finished) == {"report", "summary", "page"}
    assert (swept.path / f"reports/{MAIN}.md").exists()


def test_an_operators_report_holds_all_its_cases(swept: Project) -> None:
    assert swept.run("-j1", "reports/softmax_golden.md").code == 0
    text = (swept.path / "reports/softmax_golden.md").read_text()
    assert text.startswith("# softmax Golden CPU Performance Report")
    assert re.findall(r"^## Case: (.+)$", text, re.MULTILINE) == ["once", "thrice", "tenfold"]


def test_the_run_can_be_repeated_by_hand(swept: Project, tmp_path: Path) -> None:
    import subprocess

    from scripts import artifacts

    folder = swept.folder("softmax_golden/once")
    command = artifacts.read(folder / "profile.json", artifacts.ProfileRecord).command
    done = subprocess.run(f"{command} --into {tmp_path}/again", shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# softmax Golden CPU Performance Report")
    assert artifacts.read(tmp_path / "again/inputs.json", artifacts.InputsRecord).tensors == (
        artifacts.read(folder / "inputs.json", artifacts.InputsRecord).tensors
    )


def test_what_reproduces_a_result_has_the_config_that_it_was_made_with(project: Project) -> None:
    project.golden("broken_golden", "def attention_golden(q, k, v):\n    raise ValueError('no')\n")
    project.cases(CASES.replace("attention/attention_golden.py", "golden/broken_golden.py"))
    (project.path / "config/cases.yaml").rename(project.path / "config/my cases.yaml")
    given = ("--config", "cases=config/my cases.yaml", "iterations=2", "stale_on=torch", "match=*small", "--")
    run = project.run("-j1", "-k", *given, "reports/softmax_golden.md", "reports/softmax_golden/once.md", "all")
    again = "snakemake -j1 --config 'cases=config/my cases.yaml' iterations=2 -- reports/"
    assert f"Reproduce      {again}{MAIN}.md\n" in run.output
    for page in ("reports/summary.md", "reports/junit.xml", project.failure(MAIN).log):
        assert f"{again}{MAIN}.md" in (project.path / page).read_text(), page
    assert f"\n{again}softmax_golden.md\n" in (project.path / "reports/softmax_golden.md").read_text()
    commands = [line for line in project.report("softmax_golden/once").splitlines() if line.startswith("snakemake")]
    assert commands == [f"{again}softmax_golden/once.md", commands[0].replace("-j1", "-j1 --forcerun profile")]
    assert project.run("-n", *shlex.split(commands[0])[2:]).nothing_to_do
    assert "profile" in project.run("-n", *shlex.split(commands[1])[2:]).planned
    project.path.joinpath("config/my cases.yaml").rename(project.path / "config/cases.yaml")
    same = project.run("-n", *shlex.split(commands[0].replace("'cases=config/my cases.yaml' ", ""))[2:])
    assert same.nothing_to_do, "the words of a command are no result"


def test_no_process_is_left_behind(swept: Project) -> None:
    assert swept.processes_after_a_moment() == []


def test_operators_may_begin_like_the_pages_of_the_sweep(project: Project) -> None:
    operators = ("index-add_golden", "index.x", "summary-2")
    entry = "{golden: golden/factory_golden.py, function: factory_golden, mode: B, cases: {good: {}}}"
    project.cases("operators:\n" + "".join(f"  {name}: {entry}\n" for name in operators))
    targets = [f"reports/{name}{page}" for name in operators for page in ("/good.md", ".md")]
    run = project.run("-n", *targets, "reports/summary.md", "reports/index.html")
    assert run.code == 0, run.output
    for name in operators:
        assert f"operator_report of {name}: " in run.output
        assert f" report of {name}/good: " in run.output or f"\nreport of {name}/good: " in run.output
    assert run.output.count("operator_report of ") == 3
    assert set(re.findall(r"^(summary|page)  +1$", run.output, re.MULTILINE)) == {"summary", "page"}


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("reports/index.html", "page"),
        ("reports/junit.xml", "page"),
        ("reports/summary.csv", "summary"),
        ("./reports/summary.md", "summary"),
        ("reports/softmax_golden.md", "operator_report"),
        ("reports/softmax_golden.roofline.svg", "operator_report"),
        ("reports/softmax_golden/once.md", "report"),
        ("prof/.devices/01234567/peaks.json", "device_peaks"),
        ("prof/softmax_golden/once/0123456789ab-cpu-01234567/perf.json", "parse_csv"),
        ("make_inputs", "make_inputs"),
    ],
)
def test_a_forced_file_forces_the_rule_that_makes_it(target: str, rule: str) -> None:
    assert staleness._rule_of(target) == rule


def test_every_file_of_the_sweep_has_its_rule() -> None:
    made = {report_files.SUMMARY.name, "summary.csv", report_files.INDEX.name, *exports.NAMES.values()}
    assert set(report_files.SWEEP_PAGES) == made
