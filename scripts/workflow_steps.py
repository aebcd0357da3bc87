"""What the rules call: one function per rule. Which of them run, and on what, is said by scripts/staleness.py.

Torch is never imported here: these functions run inside the Snakemake process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from snakemake.scheduling.job_scheduler import JobScheduler

from scripts import cluster, failures, freshness, interpreter, report_files, stale_locks, workers
from scripts.errors import CaseFailure, ConfigError, GoldenprofError
from scripts.locks import Interrupted
from scripts.plan import CACHE, Plan, PlannedCase
from scripts.staleness import Staleness
from scripts.warm import client, protocol
from scripts.warm.protocol import Answer, Request
from scripts.workflow_errors import ConfigurationError, StepFailed, explained

NO_LIMIT = 100_000  # jobs per timespan in profiles/default
DEVICE = "device"  # the resource of which a profile job takes one
SPARE_JOBS = 2  # jobs that draw inputs and parse, besides those that measure
_saving = threading.Lock()  # the plan, once


def begin(config: Mapping[str, Any], workflow: Any) -> Staleness:
    """Read the configuration and plan the run; a mistake in it ends the workflow with its sentence."""
    interpreter.before_the_graph()
    job = workflow.remote_exec  # of a run on another machine, which holds the locks and has planned
    protocol.begin_session(own_parent=job)
    handed_over = cluster.handed_over() if job else []
    explained(_check_folders)
    plan = explained(lambda: Plan.read(handed_over, config) if handed_over else Plan.load(config))
    if not job:
        stale_locks.join()
    if DEVICE not in workflow.global_resources:  # `--resources device=…` holds
        workflow.register_resource(DEVICE, plan.profile_jobs)
    cluster.pass_on(workflow, DEVICE)
    _before_scheduling(_prepare)
    return Staleness(plan, workflow)


def _check_folders() -> None:
    """Snakemake shows a traceback for each file below them."""
    for folder in (Path(CACHE), report_files.FOLDER):
        if os.path.lexists(folder) and not folder.is_dir():
            raise ConfigError(f"{folder} is no folder, but the workflow writes into one of that name. Move it away.")


def start(stale: Staleness) -> None:
    """Before the first job of a run that is no dry run."""
    _lift_rate_limit(stale.workflow.scheduler)
    for sentence in (*stale.plan.left_out(), *_too_few_jobs(stale)):
        print(sentence, file=sys.stderr, flush=True)
    if stale.workflow.non_local_exec:
        explained(lambda: cluster.hand_over(stale.plan, stale.workflow))
    if stale.plan.night:
        explained(stale.plan.night.begin)


def _too_few_jobs(stale: Staleness) -> Iterator[str]:
    """That more devices could measure than jobs may run."""
    devices, jobs = stale.plan.profile_jobs, stale.workflow.nodes or stale.workflow.cores  # `-j`, or the profile's
    if jobs and jobs < devices:
        yield f"{jobs} of {devices} devices can measure at a time; `-j{devices + SPARE_JOBS}` allows jobs for all."


def _lift_rate_limit(scheduler: Any) -> None:
    """Take the rate of profiles/default, which stands for "no limit", for none.

    With any limit Snakemake starts a timer's thread in every round of scheduling, and waits for all of them at the end.
    """
    limiter = getattr(scheduler, "job_rate_limiter", None)
    if limiter is not None and limiter.max_jobs >= NO_LIMIT:
        scheduler.job_rate_limiter = None


def _before_scheduling(work: Callable[[], None]) -> None:
    """Have `work` done in the main thread when the scheduler has set its handlers and no job has begun.

    A hook of the workflow is no such place: there is none in a job of a cluster, nor with `--no-hooks`.
    """
    schedule = JobScheduler.schedule

    def prepared(scheduler: JobScheduler) -> Any:
        if not scheduler.dryrun:
            work()
        return schedule(scheduler)

    JobScheduler.schedule = prepared


def _prepare() -> None:
    interpreter.before_the_jobs()
    freshness.read_code()
    be_stoppable()
    client.hang_up_on_signals(workers.ours.hang_up)


def be_stoppable() -> None:
    """Have Snakemake's handler of SIGTERM run in a thread: it takes a lock that the interrupted code may hold."""
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        signal.signal(signal.SIGTERM, lambda *got: threading.Thread(target=handler, args=got, daemon=True).start())


def finish(stale: Staleness, failed: bool) -> None:
    """After the run, whatever became of it: write what its last jobs could not, since cases failed."""
    plan = stale.plan
    if failed and stale.workflow.non_local_exec:
        _settle_failed_jobs(stale)
    try:
        for page, wanted in (("summary", plan.summary_wanted), ("page", plan.page_wanted)):
            if failed and wanted:
                _make_at_the_end(page, plan)
    except KeyboardInterrupt:
        print("Interrupted again: the summary is not written.", file=sys.stderr, flush=True)
    if plan.night and not plan.night.concluded:
        explained(plan.night.conclude)


def ask(stale: Staleness, wildcards: Any, step: str, log: str) -> None:
    """Rules make_inputs and profile: the warm parent does the step in a process of its own."""
    here = stale.plan.rooted(wildcards.root)
    _ask(here, step, explained(lambda: here.case(wildcards.operator, wildcards.case)), log)


def measure_peaks(stale: Staleness, wildcards: Any, log: str) -> None:
    """Rule device_peaks."""
    _ask(stale.plan, "peaks", stale.plan.devices[wildcards.environment], log)


def _ask(here: Plan, step: str, planned: PlannedCase, log: str) -> None:
    """Have the warm parent do a step; a failure has been remembered, is shown, and ends the job."""
    with _saving:
        saved = explained(lambda: here.saved)
    case = planned.case.id
    try:
        failures.clear(planned)  # first: after a kill, no earlier failure stands beside a good result
        answer = client.ask(Request(step, str(saved), case, log))
        failure = None if answer else failures.of_lost_parent(step, case)
    except Interrupted as error:
        raise StepFailed(f"{case}: {error}") from None
    except (GoldenprofError, OSError) as error:
        answer, failure = None, failures.of_error(f"{step} of {case}", error, Path(log))
    if failure:
        answer = Answer(failure.status.exit_code, _remembered(planned, step, failure, Path(log)))
    assert answer is not None
    if answer.text:
        print(answer.text, file=sys.stderr, flush=True)
    if answer.exit_code:
        raise StepFailed(f"{case}: exit code {answer.exit_code}")


def locate_output(stale: Staleness, wildcards: Any, log: str) -> None:
    """Rule locate_output."""
    _step(stale, wildcards, "locate_output", log)


def parse_csv(stale: Staleness, wildcards: Any, log: str) -> None:
    """Rule parse_csv."""
    _step(stale, wildcards, "parse_csv", log)


def report(stale: Staleness, wildcards: Any, log: str) -> None:
    """Rule report."""
    _step(stale, wildcards, "report", log)


def operator_report(stale: Staleness, wildcards: Any, log: str) -> None:
    """Rule operator_report."""
    _make("operator_report", explained(lambda: stale.plan.operator(wildcards.operator)), log)


def summary(stale: Staleness) -> None:
    """Rule summary."""
    _make("summary", explained(stale.plan.sweep), str(report_files.log_of("summary")))
    stale.plan.summary_wanted = False


def page(stale: Staleness) -> None:
    """Rule page."""
    _make("page", explained(stale.plan.sweep), str(report_files.log_of("page")))
    stale.plan.page_wanted = False


def results_of_night(plan: Plan) -> list[str]:
    """perf.json of every selected case in the night's own folder."""
    return explained(_night(plan).results)


def second_results_of_night(plan: Plan) -> list[str]:
    """perf.json of the second measurement of the night's suspicious cases."""
    return explained(_night(plan).second_results)


def nightly(plan: Plan) -> None:
    """Rules nightly and nightly_again: conclude the night; regressions fail the job."""
    from scripts.night import Outcome

    record = explained(_night(plan).conclude)
    if record.outcome is Outcome.REGRESSIONS:
        raise StepFailed(f"night {record.run_id}: {record.outcome}")


def _night(plan: Plan) -> Any:
    from scripts import night

    if plan.night is None:
        plan.night = explained(lambda: night.choose(plan))
    return plan.night


def _settle_failed_jobs(stale: Staleness) -> None:
    """Make the reports of what failed jobs of a cluster have made, and leave no number that they were to make anew.

    To Snakemake all of a job has failed when one of its cases did, or has not run at all when the job was lost.
    """
    jobs = list(stale.workflow.dag.needrun_jobs())
    for wildcards in (job.wildcards for job in jobs if job.rule.name == "parse_csv"):
        planned = stale.plan.rooted(wildcards.root).case(wildcards.operator, wildcards.case)
        if not _stands(planned):
            (planned.folder / "perf.json").unlink(missing_ok=True)
    for job in jobs:
        try:
            _settle(stale, job)
        except StepFailed:
            pass  # it has said so
        except (ConfigurationError, OSError) as error:
            print(f"{job.rule.name} of {job.wildcards.operator}: {error}", file=sys.stderr, flush=True)


def _settle(stale: Staleness, job: Any) -> None:
    if job.rule.name == "report" and _stands(stale.plan.case(job.wildcards.operator, job.wildcards.case)):
        report(stale, job.wildcards, str(job.log))
    elif job.rule.name == "operator_report" and all(map(_stands, stale.plan.operator(job.wildcards.operator))):
        operator_report(stale, job.wildcards, str(job.log))


def _stands(planned: PlannedCase) -> bool:
    """Whether the case's perf.json is there and right, whatever was so when the run began."""
    return not freshness.of_case(planned).step


def _make_at_the_end(page: str, plan: Plan) -> None:
    """Make one of the sweep's pages after the last job; in this process when no worker takes work any more."""
    from scripts import page_steps

    try:
        try:
            _make(page, explained(plan.sweep), str(report_files.log_of(page)))
        except StepFailed:
            _make(page, explained(plan.sweep), str(report_files.log_of(page)), page_steps.do)
    except ConfigurationError as error:  # the others are still to be made
        print(error, file=sys.stderr, flush=True)


def _make(page: str, cases: Sequence[PlannedCase], log: str, do: Callable[..., str] | None = None) -> None:
    """Have a page about several cases made, and show what the terminal is to show. Raises StepFailed when hung up."""
    try:
        text = (do or workers.ours.do)(page, cases, log)
    except Interrupted as error:
        raise StepFailed(f"{page}: {error}") from None
    except Exception as error:
        failure = failures.of_error(page, error, Path(log))
        raise ConfigurationError(" ".join(filter(None, (failure.message, failure.advice)))) from None
    with suppress(BrokenPipeError):  # nobody reads it
        if text:
            print(text, flush=True)


def _step(stale: Staleness, wildcards: Any, name: str, log: str) -> None:
    """Have one step of a case done by a worker; a failure is remembered, shown, and ends the job."""
    here = stale.plan.rooted(getattr(wildcards, "root", CACHE))
    planned = explained(lambda: here.case(wildcards.operator, wildcards.case))
    try:
        workers.ours.do(name, [planned], log)
    except Interrupted as error:  # no failure of the case
        raise StepFailed(f"{planned.case.id}: {error}") from None
    except Exception as error:
        failure = failures.of_error(f"{name} of {planned.case.id}", error, Path(log))
        print(_remembered(planned, name, failure, Path(log)), file=sys.stderr, flush=True)
        raise StepFailed(f"{planned.case.id}: {failure.status}") from None


def _remembered(planned: PlannedCase, step: str, failure: CaseFailure, log: Path) -> str:
    """The diagnosis of a failure, which is remembered if it can be: the disk may be full."""
    try:
        return failures.write(planned, step, failure, log)
    except OSError as error:
        return f"{planned.case.id}: {failure.status}: {failure.message} It could not be remembered: {error}."
