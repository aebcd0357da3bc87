"""What the rules call: one function per rule, and the input functions. The only module that knows Snakemake.

Torch is never imported here: these functions run inside the Snakemake process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from snakemake.exceptions import SpawnedJobError, WorkflowError

from scripts import artifacts, failures, killed_run, peaks
from scripts.errors import ArtifactError, CaseFailure, GoldenprofError
from scripts.plan import CACHE, Plan, PlannedCase, code_digest
from scripts.warm import protocol

T = TypeVar("T")
MADE_BEFORE = ("inputs.json", "inputs.pt", "profile.json", "output.json")  # perf.json, in a case's folder
CLOCKS_DIFFER_S = 5  # between this machine and a file server
STEP_MODULES = {
    "locate_output": ("locate_output",),
    "parse_csv": ("locate_output", "parse_csv"),
    "report": ("report",),
    "operator_report": ("operator_report",),
    "summary": ("summary",),
    "page": ("sweep_page",),
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
    plan = _explained(lambda: Plan.load(config))
    killed_run.join()
    return plan


def saved(plan: Plan, root: str = CACHE) -> str:
    """The saved plan's path, for the steps that run in another process; `root` is the folder of the artifacts."""
    return str(_explained(lambda: plan.rooted(root).saved))


def code(rule: str) -> str:
    """Digest of the code that a cheap rule depends on: as a parameter, it makes the rule stale when it changes."""
    return code_digest(*STEP_MODULES[rule])


def start(plan: Plan) -> None:
    """Before the first job of a run that is no dry run."""
    if plan.night:
        _explained(plan.night.begin)


def finish(plan: Plan) -> None:
    """After the run, whatever became of it: write what its last jobs could not, since cases failed."""
    if plan.summary_wanted:
        _write_summary(plan)
    if plan.page_wanted:
        _write_page(plan)
    if plan.night and not plan.night.concluded:
        _explained(plan.night.conclude)


def perf_of_case(plan: Plan, wildcards: Any) -> list[str]:
    """perf.json of the case that a report is asked of, and its device's peaks."""
    planned = _explained(lambda: plan.case(wildcards.operator, wildcards.case))
    return _with_peaks(plan, [planned])


def perf_of_operator(plan: Plan, wildcards: Any) -> list[str]:
    """perf.json of every case of the operator, and their devices' peaks."""
    return _with_peaks(plan, _explained(lambda: plan.operator(wildcards.operator)))


def peaks_of_sweep(plan: Plan) -> list[str]:
    """peaks.json of every device that the cases are measured on here."""
    return [str(planned.target) for planned in _explained(lambda: plan.devices).values()]


def _with_peaks(plan: Plan, cases: list[PlannedCase]) -> list[str]:
    """A sweep asks for the peaks and waits for them; a single report shows them when they are there.

    Measuring them never fails a job (it leaves a record that says why there are none), so that no report is lost.
    """
    paths = sorted({peaks.path_of(planned.key) for planned in cases})
    asked = {planned.target for planned in plan.devices.values()} if plan.summary_wanted else set()
    shown = [path for path in paths if path in asked or path.exists()]
    _date(planned.folder / name for planned in cases for name in MADE_BEFORE)
    return _date([*(planned.folder / "perf.json" for planned in cases), *shown])


def reports_of_sweep(plan: Plan) -> list[str]:
    """The report of every selected case."""
    plan.summary_wanted = True
    return _date(planned.report for planned in _explained(plan.sweep))


def _date(paths: Iterable[Path]) -> list[str]:
    """The paths; files from the future are dated now. After a clock was set back, nothing made of them would pass:

    Snakemake removes what is older than its input.
    """
    names, now = [str(path) for path in paths], time.time()
    for name in names:
        try:
            if os.stat(name).st_mtime > now + CLOCKS_DIFFER_S:
                os.utime(name)
        except OSError:
            pass  # it is not there, or another user's
    return names


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
    perf = [path for path in map(Path, inputs) if path.name == "perf.json"]
    _explained(lambda: step.run(wildcards.operator, perf, target))


def summary(plan: Plan) -> None:
    """Rule summary."""
    _explained(lambda: _write_summary(plan))


def results_for_page(plan: Plan) -> list[str]:
    """The report of every selected case: the page shows what they are made from."""
    plan.page_wanted = True
    return reports_of_sweep(plan)


def page(plan: Plan) -> None:
    """Rule page."""
    _explained(lambda: _write_page(plan))


def results_of_night(plan: Plan) -> list[str]:
    """perf.json of every selected case in the night's own folder."""
    return _explained(_night(plan).results)


def second_results_of_night(plan: Plan) -> list[str]:
    """perf.json of the second measurement of the night's suspicious cases."""
    return _explained(_night(plan).second_results)


def nightly(plan: Plan) -> None:
    """Rules nightly and nightly_again: conclude the night; regressions fail the job."""
    from scripts.night import Outcome

    record = _explained(_night(plan).conclude)
    if record.outcome is Outcome.REGRESSIONS:
        raise StepFailed(f"night {record.run_id}: {record.outcome}")


def _night(plan: Plan) -> Any:
    from scripts import night

    if plan.night is None:
        plan.night = _explained(lambda: night.choose(plan))
    return plan.night


def _write_summary(plan: Plan) -> None:
    from scripts import summary as step

    entries = [_entry(planned) for planned in plan.sweep()]
    step.run(entries, Path("reports/summary.md"), Path("reports/summary.csv"))
    plan.summary_wanted = False


def _write_page(plan: Plan) -> None:
    from scripts import sweep_page

    plan.page_wanted = False
    print(sweep_page.write(plan.sweep(), [_entry(planned) for planned in plan.sweep()]), flush=True)


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
    here = plan.rooted(getattr(wildcards, "root", CACHE))
    planned = _explained(lambda: here.case(wildcards.operator, wildcards.case))
    Path(log).unlink(missing_ok=True)
    try:
        work(planned)
    except CaseFailure as failure:
        text = failures.write(planned, name, failure, Path(log))
        print(text, file=sys.stderr, flush=True)
        raise StepFailed(f"{planned.case.id}: {failure.status}") from None
    except GoldenprofError as error:
        text = _healed(error)
        print(text, file=sys.stderr, flush=True)
        raise StepFailed(text) from None
    failures.clear(planned)


def _explained(work: Callable[[], T]) -> T:
    """The result of `work`; an expected error becomes the workflow's own, which is shown without a traceback."""
    try:
        return work()
    except GoldenprofError as error:
        raise ConfigurationError(_healed(error)) from None


def _healed(error: GoldenprofError) -> str:
    """The error's text; a damaged artifact is put out of the way of the next run."""
    return artifacts.set_aside(error) if isinstance(error, ArtifactError) else str(error)
