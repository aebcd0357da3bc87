"""The section of one case, as both kinds of report print it, and the checks that its numbers must pass first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

from scripts.artifacts import CrossCheck, OpRow, PerfRecord, PipeRow
from scripts.call_text import dtypes, shapes
from scripts.errors import ArtifactError, CaseFailure
from scripts.formatting import column_us, decimals_of, percent, plural, us
from scripts.status import Status

# Device span over host wall: what the device does lies inside the call. A quarter is left for the profiler's own cost.
DISTURBED = Decimal("1.25")
# A golden on the CPU of whose time more than half, and more than a millisecond, is not in its kernels' span.
UNSEEN, UNSEEN_US = 2, 1000
MEAN_DECIMALS = 3  # of a mean duration: a nanosecond


@dataclass(frozen=True)
class OpLine:
    """One line of the op table, as printed."""

    name: str
    count: int
    mean: str
    total: str


@dataclass(frozen=True)
class CheckLine:
    """One cross-check of the E2E, as printed."""

    title: str
    result: str


@dataclass(frozen=True)
class PipeLine:
    """One line of the pipe table, as printed."""

    name: str
    core: str
    blocks: str
    shares: tuple[str, ...]
    bound: str
    wait: str


@dataclass(frozen=True)
class CaseSection:
    """Everything that the case's section prints, formatted but not yet escaped."""

    name: str
    input_shape: str
    dtype: str
    folder: str
    decimals: int  # of every total of this case
    e2e: str
    op_sum: str
    checks: tuple[CheckLine, ...]
    ops: tuple[OpLine, ...]
    pipe_names: tuple[str, ...]
    pipes: tuple[PipeLine, ...]


def case_section(perf: PerfRecord) -> CaseSection:
    """The section of `perf`.

    Raises CaseFailure when there is nothing to report, ArtifactError when perf.json contradicts itself.
    """
    require_reportable(perf)
    profile = perf.profile
    ops = sorted(perf.ops, key=lambda row: (-row.total_us, row.op, row.core))
    decimals = decimals_of([*(row.total_us for row in ops), perf.e2e_us])
    pipe_names = tuple(dict.fromkeys(name for row in perf.pipes for name in row.shares))
    return CaseSection(
        name=profile.case,
        input_shape=shapes(profile.inputs, profile.scalars),
        dtype=dtypes(profile.inputs, profile.scalars),
        folder=f"prof/{profile.operator}/{profile.case}/{profile.key}/",
        decimals=decimals,
        e2e=us(perf.e2e_us, decimals),
        op_sum=us(sum((row.total_us for row in ops), Decimal(0)), decimals),
        checks=(_rows_check(perf), _independent_check(perf.cross_check)),
        ops=_op_lines(ops, decimals),
        pipe_names=pipe_names,
        pipes=tuple(_pipe_line(row, pipe_names) for row in perf.pipes),
    )


def warnings(perf: PerfRecord) -> list[str]:
    """What a reader must know before using the numbers: from profiling, from parsing, and from both together."""
    found = [*perf.profile.warnings, *perf.warnings]
    wall = perf.host_wall
    if wall and perf.device_span.median_us > DISTURBED * wall.median_us:
        found.append(
            f"The device was at work for {us(perf.device_span.median_us)} (median) of a call that takes "
            f"{us(wall.median_us)} without the profiler: the profiler, or another load on the machine, disturbed this "
            "measurement. Do not use its E2E; measure again on an idle machine."
        )
    span_us = perf.device_span.median_us
    if wall and perf.profile.device.kind == "cpu" and wall.median_us > max(UNSEEN * span_us, span_us + UNSEEN_US):
        found.append(
            f"The call takes {us(wall.median_us)} (median, without the profiler), from its first kernel to its last "
            f"{us(span_us)}: the rest is work that torch's profiler does not see, such as numpy's or waiting, and the "
            "E2E is without it."
        )
    return list(dict.fromkeys(found))


def require_reportable(perf: PerfRecord) -> None:
    """Refuse a report without a result, and numbers that contradict each other."""
    case = f"{perf.profile.operator}/{perf.profile.case}"
    if perf.status is not Status.OK:
        raise CaseFailure(
            perf.status,
            f"{case} ended {perf.status}, so it has no report.",
            "Read the log of the step that failed and run the case again.",
        )
    if not perf.ops or not perf.iterations or perf.e2e_us <= 0:
        raise CaseFailure(
            Status.NO_KERNELS,
            f"The capture of {case} has {plural(len(perf.ops), 'op')} of {perf.e2e_us}us in total: nothing to report.",
            f"Look at the Type and Duration columns of {perf.output.source}: perhaps the golden launches no kernel, or "
            "every kernel was taken for noise.",
        )
    for claim, left, right in _identities(perf):
        if left != right:
            raise ArtifactError(
                f"perf.json of {case} contradicts itself: {claim}, but it says {left} and {right}. "
                "Remove perf.json and run parse_csv again; if this comes back, the parser is wrong: please report it."
            )
    if perf.cross_check.agrees is False:
        raise CaseFailure(
            Status.INCOMPLETE,
            f"{perf.cross_check.source} of {case} says {perf.cross_check.theirs_us}us where the kernels add up to "
            f"{perf.cross_check.ours_us}us. {perf.cross_check.detail}",
            "The capture is damaged or rows are missing: profile the case again.",
        )


def _identities(perf: PerfRecord) -> list[tuple[str, Decimal, Decimal]]:
    """What must be equal, whatever was measured. Sums are of decimals, so equal means equal."""
    totals = sorted(row.device_total_us for row in perf.iterations)
    middle = totals[(len(totals) - 1) // 2 : len(totals) // 2 + 1]
    zero = Decimal(0)
    return [
        ("the op totals add up to the E2E", sum((row.total_us for row in perf.ops), zero), perf.e2e_us),
        ("the E2E is the median over iterations", sum(middle, zero) / len(middle), perf.e2e_us),
        ("all rows less the dropped ones are the iterations", perf.all_rows_us - perf.dropped_us, sum(totals, zero)),
        ("the dropped rows add up", sum((row.duration_us for row in perf.dropped), zero), perf.dropped_us),
    ]


def _op_lines(ops: list[OpRow], decimals: int) -> tuple[OpLine, ...]:
    seen = Counter(row.op for row in ops)
    means = [row.mean_us for row in ops]
    mean_decimals = min(decimals_of(means), MEAN_DECIMALS)
    return tuple(
        OpLine(
            f"{row.op} ({row.core or 'no core'})" if seen[row.op] > 1 else row.op,
            row.count,
            us(row.mean_us, mean_decimals),
            total,
        )
        for row, total in zip(ops, column_us([row.total_us for row in ops], decimals), strict=True)
    )


def _rows_check(perf: PerfRecord) -> CheckLine:
    """Bookkeeping: no row of the capture was lost or counted twice. The same rows, so no independent check."""
    n = len(perf.iterations)
    kept = perf.all_rows_us - perf.dropped_us
    decimals = decimals_of([perf.all_rows_us, perf.dropped_us])
    result = f"{us(perf.all_rows_us, decimals)} − {us(perf.dropped_us, decimals)} = {us(kept, decimals)}"
    result += f" over {n} iterations: adds up to the sum of their totals" if n > 1 else ": adds up to the E2E"
    return CheckLine("Bookkeeping (all rows − dropped rows)", result)


def _independent_check(check: CrossCheck) -> CheckLine:
    if check.agrees is None or check.theirs_us is None:
        result = "not available" + (f": {check.detail}" if check.detail else "")
        return CheckLine(f"Cross-check ({check.source or 'independent source'})", result)
    decimals = decimals_of([check.ours_us, check.theirs_us])
    result = f"{us(check.theirs_us, decimals)} there, {us(check.ours_us, decimals)} here: agrees"
    return CheckLine(f"Cross-check ({check.source})", f"{result}. {check.detail}" if check.detail else result)


def _pipe_line(row: PipeRow, names: tuple[str, ...]) -> PipeLine:
    shares = tuple(percent(row.shares[name]) if name in row.shares else "–" for name in names)
    blocks = "–" if row.blocks is None else str(row.blocks)
    return PipeLine(row.op, row.core, blocks, shares, row.bound, us(row.wait_us))
