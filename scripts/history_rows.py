"""Rows of the history out of the artifacts of a run: a result, a failure, or the fact that there is neither."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from scripts import case_section, outcomes, peaks, work
from scripts.artifacts import PerfRecord, ProfileRecord
from scripts.errors import ArtifactError
from scripts.formatting import one_line
from scripts.history import HistoryRow, OpTime
from scripts.outcomes import NOT_RUN, CaseOutcome
from scripts.peaks import PeaksRecord
from scripts.plan import PlannedCase

# Settings that may move a number without changing what is measured; the rest is the series' identity or no matter.
CONDITION_SETTINGS = ("iterations", "warmup")


@dataclass(frozen=True)
class RunFacts:
    """What all rows of a run have in common."""

    run_id: str
    started_at: datetime
    host: str
    commit: str = ""
    dirty: bool = False


def rows(
    planned: Sequence[PlannedCase], run: RunFacts, measurement: int = 1, known: Sequence[CaseOutcome] | None = None
) -> list[HistoryRow]:
    """One row per case, whatever became of it; all are marked interrupted when a case's turn has not come.

    `known` are the cases' outcomes where they have just been read.
    """
    known = [outcomes.read(case.folder) for case in planned] if known is None else known
    found = [_row(case, run, measurement, outcome) for case, outcome in zip(planned, known, strict=True)]
    interrupted = any(row.status == NOT_RUN for row in found)
    return [replace(row, interrupted=interrupted) for row in found] if interrupted else found


def _row(planned: PlannedCase, run: RunFacts, measurement: int, outcome: CaseOutcome) -> HistoryRow:
    blank = _blank(planned, run, measurement)
    if outcome.perf:
        return _measured(blank, outcome.perf)
    row = replace(blank, status=outcome.status, reason=outcome.reason)
    if failure := outcome.failure:
        row = replace(row, log=failure.log, command=failure.command or row.command)
    return row


def _blank(planned: PlannedCase, run: RunFacts, measurement: int) -> HistoryRow:
    case = planned.case
    specs = [(argument.name, spec) for argument in case.arguments for spec in argument.tensors]
    return HistoryRow(
        run_id=run.run_id,
        run_started_at=run.started_at,
        host=run.host,
        commit=run.commit,
        dirty=run.dirty,
        interrupted=False,
        case_id=case.id,
        family=case.family,
        tier=case.tier,
        status=NOT_RUN,
        measurement=measurement,
        scope=_scope(case.settings.cache),
        key=planned.key,
        dtypes=list(dict.fromkeys(spec.dtype for _, spec in specs)),
        inputs=", ".join(_tensor(name, spec.dtype, spec.shape) for name, spec in specs),
        folder=planned.folder.as_posix(),
        command=planned.command,
    )


def _measured(blank: HistoryRow, perf: PerfRecord) -> HistoryRow:
    profile, total = perf.profile, perf.device_total
    limits, problems = _peaks_of(profile)
    done = work.work_of(perf, limits)
    return replace(
        blank,
        status=str(perf.status),
        device_kind=profile.device.kind,
        device_model=profile.device.model,
        physical_id=profile.device.physical_id,
        stand_in=profile.device.stand_in,
        scope=_scope(profile.cache),
        code=profile.key.partition("-")[0],
        identity=identity(profile),
        conditions=json.dumps(conditions(profile)),
        dtypes=list(dict.fromkeys(tensor.dtype for tensor in profile.inputs)),
        inputs=", ".join(_tensor(tensor.name, tensor.dtype, tensor.shape) for tensor in profile.inputs),
        measured_at=datetime.fromisoformat(profile.started_at).astimezone(UTC),
        e2e_us=float(perf.e2e_us),
        min_us=float(total.min_us),
        max_us=float(total.max_us),
        iqr_us=float(total.iqr_us),
        median_low_us=_number(total.median_low_us),
        median_high_us=_number(total.median_high_us),
        device_span_us=float(perf.device_span.median_us),
        host_wall_us=_number(perf.host_wall.median_us) if perf.host_wall else None,
        kernels=sum(row.count for row in perf.ops),
        flops=profile.flops,
        bytes_moved=profile.bytes_moved,
        peak_tflops=done.peak_tflops,
        peak_gbps=done.peak_gbps,
        iteration_us=[float(row.device_total_us) for row in perf.iterations],
        ops=[OpTime(row.op, row.core, row.count, float(row.total_us)) for row in perf.ops],
        warnings=[*case_section.warnings(perf), *problems],
        profiler_dir=profile.profiler_dir,
        log=Path(blank.folder, "profile.log").as_posix(),
        command=profile.command,
    )


def _peaks_of(profile: ProfileRecord) -> tuple[PeaksRecord | None, list[str]]:
    """The peaks of its device, and why they cannot be read: a damaged file costs no case its time."""
    try:
        return peaks.read_of(profile.key), []
    except ArtifactError as error:
        return None, [one_line(error)]


def identity(profile: ProfileRecord) -> str:
    """Digest of what is measured, whatever the code is: inputs with their contents, scalars and the cache's state."""
    facts = {
        "inputs": [(tensor.name, tensor.shape, tensor.dtype, tensor.sha256) for tensor in profile.inputs],
        "scalars": profile.scalars,
        "cache": profile.cache,
        "noise_mib": profile.noise.mib,
    }
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()[:16]


def conditions(profile: ProfileRecord) -> dict[str, str]:
    """What may move the number of an unchanged case: versions, threads, the code's digest, counts of calls."""
    settings: dict[str, Any] = {name: profile.settings.get(name, "") for name in CONDITION_SETTINGS}
    return {
        **profile.versions,
        **{name: profile.environment[name] for name in ("threads",) if name in profile.environment},
        "code": profile.key.partition("-")[0],
        **{name: str(value) for name, value in settings.items()},
    }


def _scope(cache: str) -> str:
    return f"device total, {cache} cache"


def _tensor(name: str, dtype: str, shape: tuple[int, ...]) -> str:
    return f"{name}: {dtype}[{', '.join(map(str, shape))}]"


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
