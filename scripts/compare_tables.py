"""Comparisons as Markdown: a golden against candidates, and two results of the same cases."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from scripts.artifacts import PerfRecord, TensorInfo
from scripts.call_text import dtypes, shapes
from scripts.compare_results import KernelChange, Pair
from scripts.formatting import percent, template
from scripts.result_identity import Difference
from scripts.speedup import Comparison

if TYPE_CHECKING:  # it imports torch
    from scripts.compare_golden import CaseTimes

MOST_KERNELS = 20


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    case: str
    shape: str
    dtype: str
    golden: str
    candidate: str
    speedup: str
    interval: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Table:
    """One candidate against the golden, over some cases."""

    candidate: str
    rows: list[Row]
    totals: str  # geometric mean, median, min, max of the speed-ups; "" without any


@dataclass(frozen=True)
class KernelLine:
    """One kernel that differs between two results."""

    kernel: str
    counts: str
    first: str
    second: str
    change: str


@dataclass(frozen=True)
class PairSection:
    """One case in two results, as printed."""

    case: str
    identity: list[Difference]
    surroundings: list[Difference]
    wall: str
    gate: str
    kernels: list[KernelLine]
    more_kernels: int


@dataclass(frozen=True)
class Judged:
    """One candidate on one case: its comparison, or why there is none."""

    case: CaseTimes
    candidate: str
    basis: str  # "host wall" or "device total"
    comparison: Comparison | None
    problem: str


def candidates_report(judged: Sequence[Judged], facts: Sequence[str]) -> str:
    """Golden against candidates; one table per candidate."""
    by_candidate: dict[str, list[Judged]] = {}
    for one in judged:
        by_candidate.setdefault(one.candidate, []).append(one)
    tables = [
        Table(name, [_judged_row(one) for one in rows], totals(one.comparison for one in rows if one.comparison))
        for name, rows in by_candidate.items()
    ]
    return template("compare.md.j2").render(tables=tables, facts=facts)


def results_report(pairs: Sequence[Pair], alone: Sequence[str], names: tuple[str, str]) -> str:
    """Two results of the same cases: identity first, then times, then kernels."""
    rows = [
        row(pair.second.id, pair.first.perf.profile.inputs, pair.first.perf.profile.scalars, pair.times)
        for pair in pairs
    ]
    return template("compare_results.md.j2").render(
        first=names[0],
        second=names[1],
        table=Table("second", rows, totals(pair.times for pair in pairs)),
        sections=[_section(pair) for pair in pairs],
        alone=alone,
    )


def row(case: str, inputs: Sequence[TensorInfo], scalars: Mapping[str, Any], found: Comparison) -> Row:
    """One comparison as a line."""
    return Row(
        case=case,
        shape=shapes(inputs, scalars),
        dtype=dtypes(inputs, scalars),
        golden=f"{found.golden_us:.1f}",
        candidate=f"{found.candidate_us:.1f}",
        speedup=f"{found.speedup:.2f}x",
        interval=f"{found.low:.2f}x … {found.high:.2f}x",
        verdict=found.verdict,
        reason=found.reason,
    )


def totals(comparisons: Iterable[Comparison]) -> str:
    """Geometric mean, median, min and max of the speed-ups, "" without any."""
    speedups = [comparison.speedup for comparison in comparisons]
    if not speedups:
        return ""
    return (
        f"Speed-up over {len(speedups)} {'case' if len(speedups) == 1 else 'cases'}: geometric mean "
        f"{statistics.geometric_mean(speedups):.2f}x, median {statistics.median(speedups):.2f}x, "
        f"min {min(speedups):.2f}x, max {max(speedups):.2f}x."
    )


def _judged_row(one: Judged) -> Row:
    if one.comparison is not None:
        line = row(one.case.case, one.case.inputs, one.case.scalars, one.comparison)
        return replace(line, reason=f"{line.reason} (by {one.basis})")
    shape, dtype = shapes(one.case.inputs, one.case.scalars), dtypes(one.case.inputs, one.case.scalars)
    golden = f"{statistics.median(one.case.golden.wall_us):.1f}"
    return Row(one.case.case, shape, dtype, golden, "–", "–", "–", "NOT COMPARED", one.problem)


def _section(pair: Pair) -> PairSection:
    return PairSection(
        case=pair.second.id,
        identity=pair.identity,
        surroundings=pair.surroundings,
        wall=_wall(pair.first.perf, pair.second.perf),
        gate=f"gate {100 * pair.gate:.3g} %: {pair.gate_reason}",
        kernels=[_kernel_line(change) for change in pair.kernels[:MOST_KERNELS]],
        more_kernels=max(0, len(pair.kernels) - MOST_KERNELS),
    )


def _wall(first: PerfRecord, second: PerfRecord) -> str:
    if first.host_wall is None or second.host_wall is None:
        return "not known for both"
    return f"{first.host_wall.median_us:.1f} against {second.host_wall.median_us:.1f}"


def _kernel_line(change: KernelChange) -> KernelLine:
    counts = str(change.first_count)
    if change.first_count != change.second_count:
        counts = f"{change.first_count} → {change.second_count}"
    return KernelLine(
        change.kernel,
        counts,
        f"{change.first_us:.1f}",
        f"{change.second_us:.1f}",
        _change(change.first_us, change.second_us),
    )


def _change(first: Decimal, second: Decimal) -> str:
    if not first:
        return "new"
    if not second:
        return "gone"
    return f"{'+' if second >= first else '−'}{percent(abs(float(second / first) - 1))}"
