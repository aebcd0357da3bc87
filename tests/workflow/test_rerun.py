"""What runs again after which event: the table of docs/rerun.md, one test a row.

Every project here is a checkout of its own, code included. Most rows are asked of a copy without Snakemake's metadata
and with shuffled time stamps, as a clone has them: content alone must decide.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scripts.report_files import SWEEP_PAGES
from tests.workflow.conftest import ROOT, Project, Run, new_project

CASES = """\
    defaults: {warmup: 1, iterations: 2, noise_mib: 1}
    operators:
      softmax_golden:
        golden: golden/small_golden.py
        mode: A
        cases:
          inherits: {inputs: {x: {shape: [8, 16], dtype: float32}}}
          overrides: {iterations: 3, inputs: {x: {shape: [8, 16], dtype: float32, init: "uniform(0,1)"}}}
      chain_golden:
        golden: golden/chain_golden.py
        mode: A
        iterations: 2
        cases:
          both: {inputs: {x: {shape: [8], dtype: float32}, y: {shape: [8], dtype: float32}}, scalars: {power: 2}}
      factory_golden:
        golden: golden/factory_golden.py
        mode: B
        iterations: 2
        cases: {good: {}}
"""
CHAIN = '''
"""Scales a sum; what it scales by comes from a module's module."""

import torch

from chain_scale import scale


def chain_golden(x: torch.Tensor, y: torch.Tensor, power: int) -> torch.Tensor:
    """x, y: (n,) float32 → (n,)."""
    return scale(x + y) ** power
'''
INHERITS, OVERRIDES = "softmax_golden/inherits", "softmax_golden/overrides"
CHAINED, FACTORY = "chain_golden/both", "factory_golden/good"
EVERY = (INHERITS, OVERRIDES, CHAINED, FACTORY)
STEPS = ("make_inputs", "profile", "locate_output", "parse_csv", "report")
PAGES = {("summary", ""), ("page", "")}  # of the whole sweep
MESSAGE = re.compile(r"^Job \d+: (\w+)(?: of ([\w./-]+))?: (.+)$", re.MULTILINE)
Jobs = set[tuple[str, str]]


class Checkout(Project):
    """A checkout of the whole project with cases and goldens of its own."""

    def command(self, *arguments: str) -> list[str]:
        profile = self.path / "profiles/default"
        snakemake = [sys.executable, "-m", "snakemake", "-s", str(self.path / "Snakefile")]
        return [*snakemake, "--workflow-profile", str(profile), "--directory", str(self.path), *arguments]

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace text of a file that holds it."""
        path = self.path / file
        text = path.read_text()
        assert old in text, f"{file} does not hold {old!r}"
        path.write_text(text.replace(old, new))

    def append(self, file: str, text: str) -> None:
        with (self.path / file).open("a") as out:
            out.write(text)

    def key(self, case: str) -> str:
        """The key in use."""
        return os.readlink(self.path / "prof" / case / "latest")

    def shuffle_times(self, seed: int = 0) -> None:
        """Give every file a time stamp of its own, in any order."""
        draw = random.Random(seed)
        for path in sorted(self.path.rglob("*")):
            if ".snakemake" not in path.parts and not path.is_symlink():
                moment = time.time() - draw.uniform(0, 1e6)
                os.utime(path, (moment, moment))


def steps(*cases: str, first: str = "make_inputs") -> Jobs:
    """All steps of `cases` from `first` on."""
    return {(step, case) for case in cases for step in STEPS[STEPS.index(first) :]}


def jobs(run: Run) -> Jobs:
    """The (rule, case) pairs that a run or a dry run announces; what is measured of the device itself is no case's."""
    return {(rule, case) for rule, case, _ in MESSAGE.findall(run.output) if rule != "device_peaks"}


def reasons(run: Run) -> dict[tuple[str, str], str]:
    """Why each of them runs."""
    return {(rule, case): why for rule, case, why in MESSAGE.findall(run.output)}


def plans(checkout: Checkout, expected: Jobs, *arguments: str, **environment: str) -> Run:
    """Plan only; it must be exactly `expected`."""
    planned = checkout.run("-n", *arguments, **environment)
    assert planned.code == 0, planned.output
    assert jobs(planned) == expected, planned.output
    return planned


def runs(checkout: Checkout, expected: Jobs, *arguments: str, **environment: str) -> Run:
    """Plan and run; both must be exactly `expected`, and then nothing must be left to do."""
    planned = plans(checkout, expected, *arguments, **environment)
    if not expected:
        assert planned.nothing_to_do
        return planned
    done = checkout.run("-j1", *arguments, **environment)
    assert done.code == 0, done.output
    assert jobs(done) == expected, done.output
    assert len([rule for rule in done.finished if rule != "device_peaks"]) == len(expected), done.output
    assert checkout.run("-n", *arguments, **environment).nothing_to_do
    return planned


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Every case of CASES profiled and reported once."""
    path = new_project(tmp_path_factory.mktemp("rerun")).path
    for name in ("scripts", "rules", "profiles"):
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", path)
    shutil.copytree(ROOT / "config", path / "config")
    checkout = Checkout(path)
    checkout.cases(CASES)
    checkout.golden("chain_golden", CHAIN)
    checkout.golden("chain_scale", "from chain_factor import FACTOR\n\n\ndef scale(x):\n    return x * FACTOR\n")
    checkout.golden("chain_factor", "FACTOR = 3\n")
    checkout.edit("golden/small_golden.py", "def small_golden", "def other_function")
    run = checkout.run("-j1")
    assert run.code == 0, run.output
    assert jobs(run) == steps(*EVERY) | PAGES
    return checkout


@pytest.fixture
def clone(swept: Checkout, tmp_path: Path) -> Checkout:
    """A copy with new time stamps in any order and without Snakemake's metadata."""
    shutil.copytree(swept.path, tmp_path / "clone", symlinks=True, ignore=shutil.ignore_patterns(".snakemake"))
    checkout = Checkout(tmp_path / "clone")
    checkout.shuffle_times()
    return checkout


@pytest.fixture
def same(swept: Checkout, tmp_path: Path) -> Checkout:
    """A copy with everything as it was left, metadata and time stamps included."""
    shutil.copytree(swept.path, tmp_path / "same", symlinks=True)
    return Checkout(tmp_path / "same")


# ---------------------------------------------------------------- nothing


def test_nothing_changed_runs_nothing(same: Checkout) -> None:
    runs(same, set())


@pytest.mark.parametrize("seed", [1, 2])
def test_touching_every_file_runs_nothing(same: Checkout, seed: int) -> None:
    same.shuffle_times(seed)
    runs(same, set())


def test_a_clone_with_prof_runs_nothing(clone: Checkout) -> None:
    runs(clone, set())


def test_a_clone_with_prof_but_without_reports_makes_the_reports_alone(clone: Checkout) -> None:
    shutil.rmtree(clone.path / "reports")
    runs(clone, steps(*EVERY, first="report") | PAGES)


def test_cases_in_another_order_indented_and_commented_otherwise_run_nothing(clone: Checkout) -> None:
    clone.edit("config/cases.yaml", "  chain_golden:", "  # a comment\n  chain_golden:")
    clone.edit(
        "config/cases.yaml",
        "inputs: {x: {shape: [8], dtype: float32}, y: {shape: [8], dtype: float32}}, scalars: {power: 2}",
        "scalars: {power: 2}, inputs: {y: {dtype: float32, shape: [8]}, x: {dtype: float32, shape: [ 8 ]}}",
    )
    clone.edit(
        "config/cases.yaml", "warmup: 1, iterations: 2, noise_mib: 1", "noise_mib: 1.0, iterations: 2, warmup: 1"
    )
    runs(clone, set())


def test_operators_and_cases_in_another_order_run_nothing(clone: Checkout) -> None:
    path = clone.path / "config/cases.yaml"
    file = yaml.safe_load(path.read_text())
    operators = [(name, {**one, "cases": backwards(one["cases"])}) for name, one in file["operators"].items()]
    path.write_text(yaml.safe_dump({**file, "operators": backwards(dict(operators))}, sort_keys=False))
    runs(clone, set())
    runs(clone, set(), f"reports/{INHERITS}.md", "reports/summary.md")


def backwards(mapping: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(mapping.items()))


def test_a_comment_or_a_docstring_in_a_golden_runs_nothing(clone: Checkout) -> None:
    clone.edit("golden/chain_golden.py", '"""x, y: (n,)', '# as in the paper\n    """x, y: both (n,)')
    clone.append("golden/chain_factor.py", "\n# three\n")
    runs(clone, set())


# ---------------------------------------------------------------- reports


def test_a_removed_report_is_made_alone(clone: Checkout) -> None:
    (clone.path / f"reports/{CHAINED}.md").unlink()
    runs(clone, {("report", CHAINED)})


@pytest.mark.parametrize(
    ("file", "edit", "summary"),
    [
        ("scripts/report.py", "\n\nUNUSED = 1\n", set()),
        ("scripts/formatting.py", "\n\nUNUSED = 1\n", PAGES),  # which uses it too
        ("scripts/templates/report.md.j2", "\nThe end.\n", PAGES),  # templates are one unit
    ],
)
def test_edited_report_code_plans_every_report(clone: Checkout, file: str, edit: str, summary: Jobs) -> None:
    clone.append(file, edit)
    planned = plans(clone, steps(*EVERY, first="report") | summary)
    assert reasons(planned)["report", CHAINED] == "the code or a template that makes it has changed"


def test_edited_report_code_is_noticed_with_metadata_too(same: Checkout) -> None:
    same.append("scripts/report.py", "\n\nUNUSED = 1\n")
    runs(same, steps(*EVERY, first="report"))


def test_a_report_is_stamped_with_the_code_that_made_it_and_not_with_an_edit_of_meanwhile(clone: Checkout) -> None:
    code = f'''
from pathlib import Path
from scripts.plan import Plan
from scripts.workers import Workers
workers, planned = Workers(1), Plan.load({{}}).case("{CHAINED.split("/")[0]}", "{CHAINED.split("/")[1]}")
workers.do("locate_output", [planned], "x.log")
with Path("scripts/report.py").open("a") as module:
    module.write("UNUSED = 1")
workers.do("report", [planned], "x.log")
'''
    done = subprocess.run([sys.executable, "-c", code], cwd=clone.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plans(clone, steps(*EVERY, first="report"))


def test_a_page_of_the_sweep_is_stamped_with_the_code_that_made_it(clone: Checkout) -> None:
    code = """
from pathlib import Path
from scripts.plan import Plan
from scripts.workers import Workers
workers, cases = Workers(1), Plan.load({}).sweep()
workers.do("operator_report", cases[:1], "x.log")
for name in ("summary", "sweep_page"):
    with Path(f"scripts/{name}.py").open("a") as module:
        module.write("UNUSED = 1")
workers.do("summary", cases, "x.log")
workers.do("page", cases, "x.log")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=clone.path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plans(clone, PAGES)


@pytest.mark.parametrize("name", ["junit.xml", "summary.json", "index.html", "summary.csv"])
def test_a_file_beside_a_page_that_is_removed_is_made_again_and_nothing_else(clone: Checkout, name: str) -> None:
    (clone.path / "reports" / name).unlink()
    runs(clone, {(SWEEP_PAGES[name], "")})


def test_the_picture_beside_an_operators_report_is_made_again(clone: Checkout) -> None:
    target = f"reports/{CHAINED.split('/')[0]}.md"
    assert clone.run("-j1", target).code == 0
    Path(clone.path, target).with_suffix(".roofline.svg").unlink()
    runs(clone, {("operator_report", CHAINED.split("/")[0])}, target)


def test_a_summary_after_an_interrupt_shows_no_number_of_the_code_before(clone: Checkout) -> None:
    clone.append("scripts/parse_csv.py", "\n\nUNUSED = 1\n")
    code = """
from scripts import page_steps
from scripts.plan import Plan
for page in ("summary", "page"):
    page_steps.do(page, Plan.load({}).sweep(), "x.log")
"""
    subprocess.run([sys.executable, "-c", code], cwd=clone.path, check=True, capture_output=True)
    with (clone.path / "reports/summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["status"], row["e2e_us"]) for row in rows} == {("not_run", "")}
    assert "the code that makes it has changed" in rows[0]["reason"]


def test_pages_that_were_made_without_a_report_are_made_again_when_it_is_there(clone: Checkout) -> None:
    (clone.path / f"reports/{CHAINED}.md").unlink()
    code = """
from scripts import page_steps
from scripts.plan import Plan
for page in ("summary", "page"):
    page_steps.do(page, Plan.load({}).sweep(), "x.log")
"""
    subprocess.run([sys.executable, "-c", code], cwd=clone.path, check=True, capture_output=True)
    assert clone.run("-j1").code == 0
    links = [
        f"{CHAINED}.md" in (clone.path / "reports" / page).read_text()
        for page in ("summary.md", "summary.csv", "index.html")
    ]
    assert links == [True, True, True]
    assert clone.run("-j1").nothing_to_do


# ---------------------------------------------------------------- parser


@pytest.mark.parametrize(
    ("file", "first"),
    [
        ("scripts/locate_output.py", "locate_output"),
        ("scripts/parse_csv.py", "parse_csv"),
        ("scripts/pipes.py", "parse_csv"),
    ],
)
def test_an_edited_parser_plans_no_profile(clone: Checkout, file: str, first: str) -> None:
    clone.append(file, "\n\nUNUSED = 1\n")
    planned = plans(clone, steps(*EVERY, first=first) | PAGES)
    assert reasons(planned)[first, CHAINED] == "the code that makes it has changed"
    assert reasons(planned)["report", CHAINED] == f"after {first} (the code that makes it has changed)"


def test_an_edited_parser_runs_no_profile(clone: Checkout) -> None:
    clone.append("scripts/locate_output.py", "\n\nUNUSED = 1\n")
    runs(clone, steps(*EVERY, first="locate_output") | PAGES)


def test_parsing_interrupted_after_an_edit_is_finished_later(same: Checkout) -> None:
    same.append("scripts/locate_output.py", "\n\nUNUSED = 1\n")
    key = same.key(CHAINED)
    assert same.run("-j1", f"prof/{CHAINED}/{key}/output.json").code == 0
    runs(same, steps(CHAINED, first="parse_csv"), f"reports/{CHAINED}.md")


# ---------------------------------------------------------------- the page


def test_an_alias_is_shown_on_the_page(clone: Checkout) -> None:
    clone.edit("config/cases.yaml", "cases: {good: {}}", "cases: {good: {aliases: [better]}}")
    plans(clone, PAGES)


# ---------------------------------------------------------------- one case


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{x: {shape: [8], ", "{x: {shape: [9], ", "x was float32[8] randn and is float32[9] randn"),
        ("dtype: float32}}, scalars", "dtype: float64}}, scalars", "y was float32[8] randn and is float64[8] randn"),
        (
            "[8], dtype: float32}, y",
            "[8], dtype: float32, init: ones}, y",
            "x was float32[8] randn and is float32[8] ones",
        ),
        ("scalars: {power: 2}", "scalars: {power: 2}, seed: 7", "seed was 0 and is 7"),
        ("scalars: {power: 2}", "scalars: {power: 3}", "power was 2 and is 3"),
        ("scalars: {power: 2}", "scalars: {power: 2}, iterations: 4", "iterations was 2 and is 4"),
    ],
    ids=["shape", "dtype", "init", "seed", "argument", "iterations"],
)
def test_an_edited_case_is_planned_alone(clone: Checkout, old: str, new: str, why: str) -> None:
    clone.edit("config/cases.yaml", old, new)
    if "shape: [9]" in new:
        clone.edit("config/cases.yaml", "y: {shape: [8]", "y: {shape: [1]")
        why += "; y was float32[8] randn and is float32[1] randn"
    planned = plans(clone, steps(CHAINED) | PAGES)
    assert reasons(planned)["profile", CHAINED] == why


def test_a_default_that_some_cases_override_runs_the_others(clone: Checkout) -> None:
    clone.edit("config/cases.yaml", "{warmup: 1, iterations: 2,", "{warmup: 1, iterations: 4,")
    planned = runs(clone, steps(INHERITS) | PAGES)
    assert reasons(planned)["profile", INHERITS] == "iterations was 2 and is 4"


def test_an_edit_of_a_case_that_is_taken_back_makes_its_report_again_and_profiles_nothing(clone: Checkout) -> None:
    before = clone.report(CHAINED)
    clone.edit("config/cases.yaml", "{power: 2}", "{power: 3}")
    assert clone.run("-j1").code == 0
    assert clone.report(CHAINED) != before
    clone.edit("config/cases.yaml", "{power: 3}", "{power: 2}")
    shutil.rmtree(clone.path / ".snakemake")
    planned = runs(clone, {("report", CHAINED)} | PAGES)
    assert reasons(planned)["report", CHAINED] == "it was made from other results or peaks than the present ones"
    assert clone.report(CHAINED) == before


# ---------------------------------------------------------------- goldens


@pytest.mark.parametrize(
    ("file", "old", "new", "cases"),
    [
        ("golden/chain_golden.py", "** power", "* power", (CHAINED,)),
        ("golden/chain_scale.py", "x * FACTOR", "FACTOR * x", (CHAINED,)),
        ("golden/chain_factor.py", "3", "4", (CHAINED,)),
        ("golden/factory_golden.py", "torch.randn(16, 4", "torch.rand(16, 4", (FACTORY,)),
        ("golden/small_golden.py", "dim=-1", "dim=0", (INHERITS, OVERRIDES)),
    ],
    ids=["golden", "module", "module of a module", "factory", "golden of two cases"],
)
def test_an_edited_golden_runs_its_cases_and_taking_it_back_nothing(
    clone: Checkout, file: str, old: str, new: str, cases: tuple[str, ...]
) -> None:
    text = (clone.path / file).read_text()
    clone.edit(file, old, new)
    planned = plans(clone, steps(*cases) | PAGES)
    assert reasons(planned)["profile", cases[0]] == f"{file} has changed"
    (clone.path / file).write_text(text)
    plans(clone, set())


def test_a_change_is_told_against_a_capture_of_the_same_environment(clone: Checkout) -> None:
    before = clone.path / "prof" / CHAINED / clone.key(CHAINED)
    newer = before.with_name("0123456789ab-cpu-01234567")
    shutil.copytree(before, newer)
    for name, field, value in (("inputs", "device_facts", {"model": "Other"}), ("profile", "started_at", "2999-01-01")):
        record = json.loads((newer / f"{name}.json").read_text())
        (newer / f"{name}.json").write_text(json.dumps({**record, field: value}))
    clone.edit("golden/chain_factor.py", "3", "4")
    assert reasons(clone.run("-n"))["profile", CHAINED] == "golden/chain_factor.py has changed"


def test_an_edit_of_a_golden_that_was_run_and_is_taken_back_makes_its_reports_again(clone: Checkout) -> None:
    clone.edit("golden/chain_factor.py", "3", "4")
    runs(clone, steps(CHAINED) | PAGES)
    clone.edit("golden/chain_factor.py", "4", "3")
    runs(clone, {("report", CHAINED)} | PAGES)


def test_a_failure_takes_its_reports_away_and_an_edit_taken_back_makes_them_again(clone: Checkout) -> None:
    pages = ("chain_golden.md", "chain_golden.roofline.svg")
    assert clone.run("-j1", "reports/chain_golden.md").code == 0
    before = clone.report(CHAINED)
    right = (clone.path / "golden/chain_golden.py").read_text()
    clone.edit("golden/chain_golden.py", "** power", "** power + x[10**6]")
    assert clone.run("-j1").code == 1
    assert not any((clone.path / "reports" / name).exists() for name in (f"{CHAINED}.md", *pages))
    assert (clone.path / f"reports/{INHERITS}.md").exists()
    (clone.path / "golden/chain_golden.py").write_text(right)
    runs(clone, {("report", CHAINED)} | PAGES)
    assert clone.report(CHAINED) == before
    assert clone.run("-j1", "reports/chain_golden.md").code == 0


# ---------------------------------------------------------------- the device and its versions


def test_another_version_of_torch_runs_every_case_and_stale_on_narrows_it(clone: Checkout, tmp_path: Path) -> None:
    from importlib.metadata import version

    fake = tmp_path / "site/torch-9.9.9.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9.9\n")
    elsewhere = os.pathsep.join(filter(None, [str(fake.parent), os.environ.get("PYTHONPATH", "")]))
    runs(clone, set(), "--config", "stale_on=model,driver", PYTHONPATH=elsewhere)
    planned = runs(clone, steps(*EVERY) | PAGES, PYTHONPATH=elsewhere)
    assert reasons(planned)["profile", FACTORY] == f"torch was {version('torch')} and is 9.9.9"
    runs(clone, {("report", case) for case in EVERY} | PAGES)  # and back


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_another_device_model_runs_every_case(clone: Checkout) -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        planned = clone.run("-n")
        narrowed = clone.run("-n", "--config", "stale_on=torch")
    finally:
        os.sched_setaffinity(0, cores)
    assert jobs(planned) == steps(*EVERY) | PAGES
    assert re.fullmatch(r"device model was .+ × \d+ and is .+ × 1", reasons(planned)["profile", CHAINED])
    assert narrowed.nothing_to_do, narrowed.output


def test_an_unknown_fact_is_refused(clone: Checkout) -> None:
    run = clone.run("-n", "--config", "stale_on=torhc")
    assert run.code == 1
    assert "there is no fact 'torhc'. Did you mean torch?" in run.output


def make_npu(checkout: Checkout, case: str) -> str:
    """Turn the capture of a case into one that an NPU made, as it looks when prof/ was brought from its machine."""
    old = checkout.key(case)
    new = f"{old.split('-')[0]}-npu-0123abcd"
    folder = checkout.path / "prof" / case
    (folder / old).rename(folder / new)
    (folder / "latest").unlink()
    for name in ("inputs.json", "profile.json"):
        path = folder / new / name
        record = msgspec.json.decode(path.read_bytes())
        record["key"] = new
        if name == "profile.json":
            record["device"] |= {"kind": "npu", "name": "npu:0", "model": "Ascend910B3"}
            record["environment"]["host"] = "npu-host-7"
        path.write_bytes(msgspec.json.encode(record))
    for name in ("output.json", "perf.json"):
        (folder / new / name).unlink()
    return new


def test_captures_brought_from_an_npu_machine_are_used_as_they_are(clone: Checkout) -> None:
    key = make_npu(clone, CHAINED)
    report = f"reports/{CHAINED}.md"
    runs(clone, steps(CHAINED, first="locate_output"), report)
    assert "Ascend910B3" in clone.report(CHAINED)
    assert "npu-host-7" in clone.report(CHAINED)
    held = {path: path.read_bytes() for path in (clone.path / "prof" / CHAINED / key).rglob("*") if path.is_file()}
    runs(clone, steps(CHAINED), report, "--config", "device=cpu")
    assert clone.key(CHAINED).split("-")[1] == "cpu"
    assert {path: path.read_bytes() for path in held} == held
    runs(clone, {("report", CHAINED)}, report)
    assert "Ascend910B3" in clone.report(CHAINED)


def test_forcing_a_profile_never_touches_a_capture_of_another_machine(clone: Checkout) -> None:
    key = make_npu(clone, CHAINED)
    folder = clone.path / "prof" / CHAINED / key
    held = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    run = clone.run("-j1", f"reports/{CHAINED}.md", "--forcerun", "profile")
    assert run.code == 0, run.output
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == held
    assert clone.key(CHAINED).split("-")[1] == "cpu"


# ---------------------------------------------------------------- forced, killed, removed


@pytest.mark.parametrize("rule", ["profile", "parse_csv", "report"])
def test_a_forced_step_runs_with_all_that_follow_and_nothing_else(clone: Checkout, rule: str) -> None:
    expected = steps(CHAINED, first=rule)
    if rule == "profile":  # its inputs were dropped after the first time
        expected |= {("make_inputs", CHAINED)}
    run = clone.run("-j1", f"reports/{CHAINED}.md", "--forcerun", rule)
    assert run.code == 0, run.output
    assert jobs(run) == expected
    assert reasons(run)[rule, CHAINED] == "forced on the command line"


def finished_steps(checkout: Checkout) -> Jobs:
    """The steps whose results are there."""
    outputs = {"profile": "profile.json", "locate_output": "output.json", "parse_csv": "perf.json"}
    found = set()
    for case in EVERY:
        for folder in (checkout.path / "prof" / case).glob("*-cpu-*"):
            found |= {(step, case) for step, name in outputs.items() if (folder / name).exists()}
        if (checkout.path / f"reports/{case}.md").exists():  # whole, its stamp included
            found.add(("report", case))
    return found


@pytest.fixture
def empty(clone: Checkout) -> Iterator[Checkout]:
    """A checkout in which nothing has run."""
    shutil.rmtree(clone.path / "prof")
    shutil.rmtree(clone.path / "reports")
    yield clone
    assert clone.processes_after_a_moment() == []


@pytest.mark.parametrize(
    "moment",
    [
        lambda project: any((project.path / "prof").rglob("inputs.pt")),
        lambda project: any((project.path / "prof").rglob("*_ascend_pt")),
        lambda project: any((project.path / "prof").rglob("profile.json")),
        lambda project: any((project.path / "reports").rglob("*.md")),
    ],
    ids=["inputs drawn", "capture begun", "profiled", "reported"],
)
def test_after_a_kill_what_was_not_finished_runs(empty: Checkout, moment: Callable[[Project], bool]) -> None:
    process = subprocess.Popen(
        empty.command("-j2"),
        cwd=empty.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not moment(empty) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert empty.processes_after_a_moment() == []
    left = finished_steps(empty)
    assert empty.run("--unlock").code == 0
    done = empty.run("-j1")
    assert done.code == 0, done.output
    again = {job for job in jobs(done) if job[0] not in ("make_inputs", "summary", "page")}
    assert again == {job for job in steps(*EVERY) if job[0] != "make_inputs"} - left
    assert finished_steps(empty) == {job for job in steps(*EVERY) if job[0] != "make_inputs"}
    assert empty.run("-n").nothing_to_do


def test_a_removed_case_runs_nothing_and_is_listed_and_removed_on_request(clone: Checkout) -> None:
    clone.edit("config/cases.yaml", "      overrides: {", "      # overrides: {")
    runs(clone, PAGES)  # which lists one case less
    folder = clone.path / "prof" / OVERRIDES
    assert folder.exists()
    clean = [sys.executable, "-m", "scripts.cli", "clean", "--absent-cases"]
    listed = subprocess.run(clean, cwd=clone.path, capture_output=True, text=True)
    assert f"prof/{OVERRIDES}/" in listed.stdout, listed.stderr
    assert folder.exists()
    assert subprocess.run([*clean, "--remove"], cwd=clone.path, capture_output=True).returncode == 0
    assert not folder.exists()
    runs(clone, set())


# ---------------------------------------------------------------- what is planned


def test_the_link_latest_leads_to_the_key_in_use(clone: Checkout) -> None:
    first = clone.key(CHAINED)
    assert (clone.path / "prof" / CHAINED / first / "perf.json").exists()
    clone.edit("config/cases.yaml", "{power: 2}", "{power: 3}")
    assert clone.run("-j1", f"reports/{CHAINED}.md").code == 0
    assert clone.key(CHAINED) != first
    clone.edit("config/cases.yaml", "{power: 3}", "{power: 2}")
    assert clone.run("-j1", f"reports/{CHAINED}.md").code == 0
    assert clone.key(CHAINED) == first


def test_a_key_of_other_code_cannot_be_asked_for(clone: Checkout) -> None:
    key = clone.key(CHAINED)
    clone.edit("golden/chain_factor.py", "3", "4")
    run = clone.run("-n", f"prof/{CHAINED}/{key}/perf.json")
    assert run.code == 1
    assert "cannot be made" in run.output


def test_code_that_is_edited_while_it_is_measured_is_not_taken_for_the_planned(empty: Checkout) -> None:
    empty.edit("golden/chain_golden.py", "import torch\n", "from pathlib import Path\n\nimport torch\n")
    empty.edit(
        "golden/chain_golden.py",
        "    return scale",
        "    Path(__file__).with_name('chain_factor.py').write_text('FACTOR = 5\\n')\n    return scale",
    )
    run = empty.run("-j1", f"reports/{CHAINED}.md")
    assert run.code == 1
    failure = empty.failure(CHAINED)
    assert "was edited while" in failure.message
    assert not any((empty.path / "prof").rglob("profile.json"))
