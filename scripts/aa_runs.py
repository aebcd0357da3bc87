"""The same case run again and again, each time in a process of its own, as the workflow does it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from scripts import artifacts, failures, locate_output, parse_csv
from scripts.artifacts import FailureRecord, PerfRecord
from scripts.cases import Case
from scripts.errors import CaseFailure
from scripts.plan import CACHE, Plan, PlannedCase
from scripts.status import Status
from scripts.warm import client, protocol
from scripts.warm.protocol import Request


def device_totals(case: Case, runs: int, iterations: int) -> list[list[Decimal]]:
    """Device totals in microseconds, one list of `iterations` samples per run.

    Nothing of it stays in the cache. Raises CaseFailure with the status that a run ends in.
    """
    protocol.begin_session()
    settings = replace(case.settings, iterations=iterations, keep_inputs=True)
    with _plan(replace(case, settings=settings)) as (plan, planned):
        _step("make_inputs", plan, planned)
        return [_one_run(plan, planned) for _ in range(runs)]


@contextmanager
def _plan(case: Case) -> Iterator[tuple[Path, PlannedCase]]:
    """A plan of this one case, with its artifacts in a folder that is removed afterwards."""
    Path(CACHE).mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".aa-", dir=CACHE))
    plan = Plan([case], root=str(folder))
    path = plan.save()
    try:
        yield path, plan.by_id[case.id]
    finally:
        path.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _one_run(plan: Path, planned: PlannedCase) -> list[Decimal]:
    _step("profile", plan, planned)
    locate_output.run(planned.folder)
    parse_csv.run(planned.folder)
    perf = artifacts.read(planned.folder / "perf.json", PerfRecord)
    return [total.device_total_us for total in perf.iterations]


def _step(step: str, plan: Path, planned: PlannedCase) -> None:
    log = str(planned.folder / f"{step}.log")
    answer = client.ask(Request(step, str(plan), planned.case.id, log))
    if answer is None or answer.exit_code:
        record = failures.path(planned)
        if record.exists():
            failure = artifacts.read(record, FailureRecord)
            raise CaseFailure(failure.status, failure.message, failure.advice)
        told = answer.text.strip()[-500:] if answer else "the warm parent died over it twice"
        raise CaseFailure(Status.PROFILER_FAILED, f"{step} of {planned.case.id} failed: {told}")
