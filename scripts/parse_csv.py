"""parse_csv: from the rows of a capture to the numbers of one case.

E2E is the median over iterations of the sum of the golden's kernel durations. The op table shows the iteration in the
middle (the mean of the two in the middle for an even number), so that its totals add up to the E2E exactly; with one
iteration both are the plain sums. Communication is listed apart: see scripts/attribution.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scripts import artifacts, attribution, cross_check, kernel_table, pipes
from scripts.artifacts import (
    CrossCheck,
    DroppedRow,
    IterationTotal,
    KernelRow,
    OpRow,
    OutputRecord,
    PerfRecord,
    PipeRow,
    ProfileRecord,
)
from scripts.attribution import GOLDEN, RULES, Attribution
from scripts.errors import CaseFailure
from scripts.kernel_table import KernelTable, microseconds
from scripts.kernels import Kernel
from scripts.statistics import plain, spread, spread_of_ps
from scripts.status import Status

WIDE_SPREAD = 0.10  # IQR over median; the first of torch.utils.benchmark's two warning levels
IDLE_BUSY_SHARE = 0.5  # below, the device waits for the host for most of the golden


def run(case_dir: Path) -> None:
    """Write `perf.json` of the case in `case_dir`."""
    artifacts.write(case_dir / "perf.json", parse(case_dir))


def parse(case_dir: Path) -> PerfRecord:
    """Read the capture that `case_dir/output.json` names.

    Raises CaseFailure: INCOMPLETE when the rows cannot be read or do not fit the measurement, or an independent sum
    disagrees; NO_KERNELS when the golden launched none.
    """
    profile = artifacts.read(case_dir / "profile.json", ProfileRecord)
    output = artifacts.read(case_dir / "output.json", OutputRecord)
    table = kernel_table.read(case_dir / output.source, output.source_kind)
    return measure(table, profile, output)


def measure(table: KernelTable, profile: ProfileRecord, output: OutputRecord) -> PerfRecord:
    """The numbers of one capture; see `parse`."""
    attributed = attribution.attribute(table, profile)
    golden = _Golden.of(table, attributed)
    checked = cross_check.check(table)
    totals = [_iteration(table, golden, k, step) for k, step in enumerate(attributed.step_ids)]
    device_total = spread([total.device_total_us for total in totals])
    if device_total.median_us == 0:
        raise CaseFailure(
            Status.NO_KERNELS,
            f"{table.paths[0]}: every kernel of the golden has a duration of 0 us.",
            attribution.NO_KERNELS_ADVICE,
        )
    central = _central(totals)
    dropped = np.flatnonzero(attributed.rule != GOLDEN)
    perf = PerfRecord(
        profile=profile,
        output=output,
        status=Status.OK,
        e2e_us=device_total.median_us,
        all_rows_us=table.total_us(slice(None)),
        dropped_us=table.total_us(dropped),
        iterations=totals,
        device_total=device_total,
        device_span=spread([total.device_span_us for total in totals]),
        host_wall=spread(profile.host_wall_us) if profile.host_wall_us else None,
        profiled_wall=spread(profile.profiled_wall_us) if profile.profiled_wall_us else None,
        busy_share=_busy_share(totals),
        ops=sorted(_ops(golden, central), key=lambda row: (-row.total_us, row.op, row.core)),
        kernels=sorted(_kernels(golden, len(totals)), key=lambda row: (-row.median_us * row.count, row.op, row.name)),
        pipes=_pipes(table, golden, central),
        dropped=_dropped(table, attributed, dropped),
        cross_check=checked,
        attribution=attributed.how,
        warnings=[],
    )
    perf.warnings.extend([*attributed.warnings, *_warnings(table, perf, checked)])
    return perf


@dataclass(frozen=True)
class _Golden:
    """The golden's rows of all iterations, by kernel and by op."""

    rows: np.ndarray  # row numbers
    iteration: np.ndarray  # of each
    kernel: np.ndarray  # of each: index into `kernels`
    op: np.ndarray  # of each: index into `ops`
    kernels: tuple[Kernel, ...]
    ops: list[tuple[str, str]]  # (op type, core)
    duration_ps: np.ndarray

    @classmethod
    def of(cls, table: KernelTable, attributed: Attribution) -> _Golden:
        rows = np.flatnonzero(attributed.rule == GOLDEN)
        every = attributed.kernels.codes[rows]
        present = np.bincount(every, minlength=len(attributed.kernels.kinds)) > 0
        codes = (np.cumsum(present) - 1)[every]
        kernels = tuple(attributed.kernels.kinds[code] for code in np.flatnonzero(present))
        index: dict[tuple[str, str], int] = {}
        op_of = np.array([index.setdefault((one.op, one.core), len(index)) for one in kernels])
        return cls(rows, attributed.iteration[rows], codes, op_of[codes], kernels, list(index), table.duration_ps[rows])


def _iteration(table: KernelTable, golden: _Golden, k: int, step_id: int | None) -> IterationTotal:
    rows = golden.rows[golden.iteration == k]
    span, busy = table.span_and_busy_us(rows)
    return IterationTotal(
        iteration=k,
        step_id=step_id,
        kernels=len(rows),
        device_total_us=table.total_us(rows),
        device_span_us=span,
        device_busy_us=busy,
    )


def _central(totals: list[IterationTotal]) -> list[int]:
    """The iteration(s) whose totals make the median."""
    order = sorted(range(len(totals)), key=lambda k: totals[k].device_total_us)
    return order[(len(order) - 1) // 2 : len(order) // 2 + 1]


def _busy_share(totals: list[IterationTotal]) -> float:
    shares = [total.device_busy_us / total.device_span_us for total in totals if total.device_span_us]
    return float(np.median(np.array(shares, np.float64))) if shares else 0.0


def _ops(golden: _Golden, central: list[int]) -> Iterator[OpRow]:
    in_central = np.isin(golden.iteration, central)
    for code, (op, core) in enumerate(golden.ops):
        own = golden.op == code
        count = int((own & in_central).sum()) // len(central)
        # at most two iterations are averaged: the half is exact
        total = plain(microseconds(int(golden.duration_ps[own & in_central].sum())) / len(central))
        yield OpRow(op, core, count, total / count, total, spread_of_ps(golden.duration_ps[own]))


def _kernels(golden: _Golden, iterations: int) -> Iterator[KernelRow]:
    for code, one in enumerate(golden.kernels):
        launches = golden.duration_ps[golden.kernel == code]
        median = spread_of_ps(launches).median_us
        yield KernelRow(one.op, one.name, one.core, one.input_shapes, len(launches) // iterations, median)


def _pipes(table: KernelTable, golden: _Golden, central: list[int]) -> list[PipeRow]:
    if not table.pmu:
        return []
    in_central = np.isin(golden.iteration, central)
    rows = []
    for code, (op, core) in enumerate(golden.ops):
        own = golden.op == code
        rows.append(pipes.pipe_row(table, op, core, golden.rows[own], golden.rows[own & in_central], len(central)))
    return rows


def _dropped(table: KernelTable, attributed: Attribution, rows: np.ndarray) -> list[DroppedRow]:
    return [
        DroppedRow(
            line=line,
            rule=RULES[attributed.rule[row]],
            step_id=table.step_id[row],
            op=table.op[row] or "N/A",
            name=table.name[row] or "N/A",
            input_shapes=table.input_shapes[row] or "",
            duration_us=table.duration_us(row),
        )
        for row, line in zip(rows, table.lines(rows), strict=True)
    ]


def _warnings(table: KernelTable, perf: PerfRecord, checked: CrossCheck) -> Iterator[str]:
    relative = perf.device_total.relative_iqr
    if len(perf.iterations) == 1:
        yield "One iteration: nothing is known about the spread of this number."
    elif relative > WIDE_SPREAD:
        yield (
            f"The device total spreads by {100 * relative:.1f} % (IQR / median, n = {perf.device_total.n}), more "
            f"than {100 * WIDE_SPREAD:.0f} %: do not read small differences out of it."
        )
    if not table.op.known.any():
        yield "The capture has no op types (profiler Level0): ops are listed by kernel name. Ask for Level1."
    fallbacks = sorted({row.op for row in perf.ops if row.core == "AI_CPU"})
    if fallbacks:
        yield f"{', '.join(fallbacks)} ran on the AI CPU, which is slow: another dtype or shape may avoid it."
    overlap = max(total.device_total_us - total.device_busy_us for total in perf.iterations)
    # on the CPU an operator's own time is stamped at its start, and so lies over that of the operators it calls
    if overlap > 0 and perf.profile.device.kind != "cpu":
        yield f"Kernels overlap in time (by up to {overlap} us): the device total is more than the device was busy."
    if perf.busy_share < IDLE_BUSY_SHARE:
        yield f"Kernels ran during {100 * perf.busy_share:.0f} % of the golden's span: the rest went into launches."
    if checked.agrees is None:
        yield "No independent sum lies beside the capture: the total was not cross-checked."
    before = sum(row.rule == "before_noise" for row in perf.dropped)
    if before:
        yield f"{before} rows ran before an iteration's noise and are no restore copies; they were dropped."
    outside = sum(row.rule in ("outside_steps", "warm_up") for row in perf.dropped)
    if outside:
        yield f"{outside} rows belong to no measured step; they were dropped."
