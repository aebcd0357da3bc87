"""What the rules call: one function per rule, and the input functions. The only module that knows Snakemake.

Torch is never imported here: these functions run inside the Snakemake process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from snakemake.exceptions import SpawnedJobError, WorkflowError

from scripts import failures
from scripts.errors import CaseFailure, GoldenprofError
from scripts.plan import Plan, PlannedCase, code_digest
from scripts.warm import protocol

T = TypeVar("T")
STEP_MODULES = {
    "locate_output": ("locate_output",),
    "parse_csv": ("locate_output", "parse_csv"),
    "report": ("report",),
    "operator_report": ("operator_report",),
    "summary": ("summary",),
}


class ConfigurationError(WorkflowError):
    """A user's mistake, shown by Snakemake as its sentence alone: it lists no frames where it sees no traceback."""

    __traceback__ = None


class StepFailed(SpawnedJobError):
    """A step that has printed its own diagnosis: Snakemake adds which job failed, and nothing else."""

    __traceback__ = None


def begin(config: Mapping[str, Any]) -> Plan:
    """Read the configuration and plan the run; a mistake in it ends the workflow with its sentence."""
    protocol.begin_session()
    return _explained(lambda: Plan.load(config))


def saved(plan: Plan) -> str:
    """The saved plan's path, for the steps that run in another process."""
    return str(_explained(plan.save))


def code(rule: str) -> str:
    """Digest of the code that a cheap rule depends on: as a parameter, it makes the rule stale when it changes."""
    return code_digest(*STEP_MODULES[rule])


def finish(plan: Plan) -> None:
    """After the run, whatever became of it: write the summary of a sweep that could not finish."""
    if plan.summary_wanted:
        _write_summary(plan)


def perf_of_case(plan: Plan, wildcards: Any) -> str:
    """perf.json of the case that a report is asked of."""
    return str(_explained(lambda: plan.case(wildcards.operator, wildcards.case)).folder / "perf.json")


def perf_of_operator(plan: Plan, wildcards: Any) -> list[str]:
    """perf.json of every case of the operator."""
    return [str(planned.folder / "perf.json") for planned in _explained(lambda: plan.operator(wildcards.operator))]


def reports_of_sweep(plan: Plan) -> list[str]:
    """The report of every selected case."""
    plan.summary_wanted = True
    return [str(planned.report) for planned in _explained(plan.sweep)]


def locate_output(plan: Plan, wildcards: Any, log: str) -> None:
    """Rule locate_output."""
    from scripts import locate_output as step

    _step(plan, wildcards, "locate_output", log, lambda planned: step.run(planned.folder))


def parse_csv(plan: Plan, wildcards: Any, log: str) -> None:
    """Rule parse_csv."""
    from scripts import parse_csv as step

    _step(plan, wildcards, "parse_csv", log, lambda planned: step.run(planned.folder))


def report(plan: Plan, wildcards: Any, log: str) -> None:
    """Rule report."""
    from scripts import report as step

    _step(plan, wildcards, "report", log, lambda planned: step.run(planned.folder / "perf.json", planned.report))


def operator_report(plan: Plan, wildcards: Any, inputs: Iterable[str], log: str) -> None:
    """Rule operator_report."""
    from scripts import operator_report as step

    target = Path("reports", f"{wildcards.operator}.md")
    _explained(lambda: step.run(wildcards.operator, [Path(path) for path in inputs], target))


def summary(plan: Plan) -> None:
    """Rule summary."""
    _explained(lambda: _write_summary(plan))


def _write_summary(plan: Plan) -> None:
    from scripts import summary as step

    entries = [_entry(planned) for planned in plan.sweep()]
    step.run(entries, Path("reports/summary.md"), Path("reports/summary.csv"))
    plan.summary_wanted = False


def _entry(planned: PlannedCase) -> Any:
    from scripts.summary import SummaryEntry

    case, perf, failure = planned.case, planned.folder / "perf.json", failures.path(planned)
    return SummaryEntry(
        case=case.id,
        family=case.family,
        tier=case.tier,
        perf=perf if perf.exists() else None,
        failure=failure if failure.exists() else None,
        report=planned.report,
    )


def _step(plan: Plan, wildcards: Any, name: str, log: str, work: Callable[[PlannedCase], None]) -> None:
    """Do one step of a case in this process; a failure is remembered, shown, and ends the job."""
    planned = _explained(lambda: plan.case(wildcards.operator, wildcards.case))
    Path(log).unlink(missing_ok=True)
    try:
        work(planned)
    except CaseFailure as failure:
        text = failures.write(planned, name, failure, Path(log))
        print(text, file=sys.stderr, flush=True)
        raise StepFailed(f"{planned.case.id}: {failure.status}") from None
    except GoldenprofError as error:
        print(error, file=sys.stderr, flush=True)
        raise StepFailed(str(error)) from None
    failures.clear(planned)


def _explained(work: Callable[[], T]) -> T:
    """The result of `work`; an expected error becomes the workflow's own, which is shown without a traceback."""
    try:
        return work()
    except GoldenprofError as error:
        raise ConfigurationError(str(error)) from None
