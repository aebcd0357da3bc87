"""Jobs on other machines, as an executor plugin starts them: they do what was planned, in groups, and once."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import yaml

from scripts import machine, workflow_steps
from scripts.status import Status
from scripts.workflow_errors import ConfigurationError, StepFailed
from tests.workflow.conftest import FINISHED, ROOT, Project, Run, decode

PLUGINS = Path(__file__).with_name("plugins")
CLUSTER = [
    *("--executor", "beside", "--jobs", "4", "--seconds-between-status-checks", "0", "--keep-incomplete"),
    *("--groups", "make_inputs=cases", "profile=cases", "locate_output=cases", "parse_csv=cases"),
    *("--group-components", "cases=10", "--set-resource-scopes", "device=local", "--latency-wait", "5"),
]
CASES = """\
    defaults: {warmup: 1, iterations: 2, noise_mib: 1, device: cpu}
    operators:
      softmax_golden:
        golden: golden/small_golden.py
        mode: A
        cases:
          small: {inputs: {x: {shape: [8, 16], dtype: float32}}}
          large: {inputs: {x: {shape: [16, 16], dtype: float32}}}
      index_golden:
        golden: golden/broken_golden.py
        function: index_golden
        mode: A
        cases:
          broken: {inputs: {x: {shape: [8], dtype: float32}}}
"""
SMALL, LARGE, BROKEN = "softmax_golden/small", "softmax_golden/large", "index_golden/broken"


def on_cluster(project: Project, *arguments: str, **environment: str) -> Run:
    path = os.pathsep.join(filter(None, (str(PLUGINS), os.environ.get("PYTHONPATH"))))
    return project.run(*CLUSTER, *arguments, PYTHONPATH=path, **environment)


def logs(project: Project, level: str) -> list[str]:
    return [path.read_text() for path in sorted((project.path / ".snakemake/beside").glob(f"{level}-*"))]


@pytest.fixture(scope="module")
def swept(shared_project: Callable[[str], Project]) -> tuple[Project, Run]:
    """Three cases in one job, one of them broken; while the job waits, somebody edits the cases file."""
    project = shared_project("swept")
    project.cases(CASES)
    edit = "sed -i 's/iterations: 2/iterations: 9/' config/cases.yaml"
    targets = ["reports/softmax_golden.md", *(f"reports/{case}.md" for case in (SMALL, LARGE, BROKEN))]
    run = on_cluster(project, *targets, BESIDE_BEFORE=edit)
    return project, run


def test_one_job_does_all_cases_of_its_group(swept: tuple[Project, Run]) -> None:
    project, run = swept
    assert len(logs(project, "first")) == 1, run.output
    (job,) = logs(project, "second")
    done = sorted(FINISHED.findall(job))
    assert done == sorted([*("locate_output", "parse_csv", "profile") * 2, *["make_inputs"] * 3])
    log = (project.path / ".snakemake/goldenprof/warm.log").read_text()
    assert "Error" not in log


def test_a_broken_golden_costs_only_its_own_case(swept: tuple[Project, Run]) -> None:
    project, run = swept
    assert run.code == 1
    assert project.failure(BROKEN).status is Status.GOLDEN_FAILED
    assert all(project.report(case) for case in (SMALL, LARGE))


def test_a_job_does_what_was_planned_before_it_waited(swept: tuple[Project, Run]) -> None:
    project, _ = swept
    assert "iterations: 9" in (project.path / "config/cases.yaml").read_text()
    assert project.perf(SMALL).profile.iterations == 2


def test_no_process_outlives_its_job(swept: tuple[Project, Run]) -> None:
    assert swept[0].processes_after_a_moment() == []


def test_the_rest_is_done_where_it_is_planned(swept: tuple[Project, Run]) -> None:
    project, _ = swept
    assert not re.search(r"Finished jobid: \d+ \(Rule: report\)", "".join(logs(project, "second")))
    again = project.run("-j1", "reports/softmax_golden.md", "--config", "iterations=2")
    assert again.nothing_to_do, again.output


def test_a_lost_job_leaves_no_stale_number_in_the_summary(swept: tuple[Project, Run]) -> None:
    project, _ = swept
    perf = project.folder(LARGE) / "perf.json"
    perf.write_text(re.sub(r'"stamp": "\w+', '"stamp": "0123456789abcdef', perf.read_text()))
    arguments = ["--config", "iterations=2", "match=softmax_golden/*"]
    run = on_cluster(project, *arguments, BESIDE_BEFORE="false")
    rows = decode(project.path / "reports/summary.json")["cases"]
    assert run.code == 1
    assert {row["case"]: row["status"] for row in rows} == {"small": "ok", "large": "not_run"}


def test_a_page_that_fails_in_the_end_keeps_neither_the_others_nor_the_summary_from_being_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []

    def report(stale: object, wildcards: SimpleNamespace, log: str) -> None:
        if wildcards.case == "bad":
            raise StepFailed("op/bad: incomplete")
        made.append(wildcards.case)

    def operator_report(stale: object, wildcards: SimpleNamespace, log: str) -> None:
        raise ConfigurationError("perf.json is missing.")

    monkeypatch.setattr(workflow_steps, "report", report)
    monkeypatch.setattr(workflow_steps, "operator_report", operator_report)
    monkeypatch.setattr(workflow_steps, "_stands", lambda planned: True)
    monkeypatch.setattr(workflow_steps, "_make_at_the_end", lambda page, plan: made.append(page))
    jobs = [
        SimpleNamespace(
            rule=SimpleNamespace(name=rule), wildcards=SimpleNamespace(operator="op", case=case), log="x.log"
        )
        for rule, case in (("report", "bad"), ("operator_report", ""), ("report", "good"))
    ]
    plan = SimpleNamespace(
        summary_wanted=True, page_wanted=False, night=None, case=lambda *names: names, operator=lambda name: [name]
    )
    workflow = SimpleNamespace(non_local_exec=True, dag=SimpleNamespace(needrun_jobs=lambda: jobs))
    workflow_steps.finish(SimpleNamespace(plan=plan, workflow=workflow), failed=True)
    assert made == ["good", "summary"]
    assert "operator_report of op: perf.json is missing." in capsys.readouterr().err


def test_a_node_without_the_device_that_was_planned_for_is_refused_before_anything_is_written(project: Project) -> None:
    project.cases(CASES)
    file = project.path / "node.json"
    machine.save(file)
    told = decode(file)
    (cpu,) = [entry for entry in told["told"] if entry["survey"]["kind"] == "cpu"]
    cpu["survey"]["models"] = ["Another processor × 64"]
    file.write_bytes(msgspec.json.encode(told))
    run = on_cluster(project, f"reports/{SMALL}.md", "--config", "machine=node.json")
    failure = project.failure(SMALL)
    assert run.code == 1
    assert failure.status is Status.INCOMPLETE and failure.step == "make_inputs"
    assert "was planned for another device" in failure.message and "docs/cluster.md" in failure.advice
    left = (project.path / "prof" / SMALL / failure.key).iterdir()
    assert [path.name for path in left if path.suffix != ".log"] == ["failure.json"]


def test_a_machines_file_that_is_none_is_refused_in_a_sentence(project: Project) -> None:
    project.cases(CASES)
    run = project.run("-n", "-j1", "--config", "machine=nothing.json")
    assert run.code == 1
    assert "--config machine=nothing.json: the file is not there. Write it on the machine that measures" in run.output
    assert "Traceback" not in run.output


def test_the_kubernetes_profile_sends_its_jobs_as_its_manifest_says(project: Project) -> None:
    """With a stand-in for kubectl that has no environment of ours in its pods."""
    pytest.importorskip("snakemake_executor_plugin_cluster_generic", reason="needs the extra `cluster`")
    project.cases(CASES.replace("2, noise", "2, seed: 3, noise"))
    (project.path / "profiles").symlink_to(ROOT / "profiles")
    tools = project.path / "tools"
    shutil.copytree(Path(__file__).with_name("tools"), tools)
    arguments = ["--profile", "profiles/kubernetes", "--seconds-between-status-checks", "1", "--latency-wait", "5"]
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    run = project.run(*arguments, "reports/softmax_golden.md", PATH=path)
    assert run.code == 0, run.output
    (job,) = (tools / "jobs").glob("*.yaml")
    container = yaml.safe_load(job.read_text())["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "8", "memory": "16000M"}
    assert container["workingDir"] == str(project.path)
    assert project.perf(SMALL).profile.settings["seed"] == 3


def test_batches_are_parts_of_the_cases(project: Project) -> None:
    project.cases(CASES)
    runs = [project.run("-n", "cases", "--batch", f"cases={part}/3") for part in (1, 2)]
    planned = [re.findall(r"^Job \d+: report of (\S+?):", run.output, re.MULTILINE) for run in runs]
    assert [len(part) for part in planned] == [1, 1] and planned[0] != planned[1], runs[0].output
