"""The tables behind a case's E2E, as its report prints them: spread, iterations and dropped rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from scripts.artifacts import DroppedRow, IterationTotal, PerfRecord, Spread
from scripts.formatting import decimals_of, percent, us

MOST_ITERATIONS = 24  # lines of the iteration table
MOST_DROPPED = 16  # lines of the dropped-row table: a screenful with its legend


@dataclass(frozen=True)
class SpreadLine:
    """One line of the spread table, as printed."""

    name: str
    n: int
    median: str
    low: str
    high: str
    iqr: str
    relative: str
    interval: str
    outliers: int


@dataclass(frozen=True)
class IterationLine:
    """One line of the iteration table, as printed."""

    number: int
    step: str
    kernels: int
    total: str
    span: str
    busy: str


@dataclass(frozen=True)
class DroppedLine:
    """Dropped rows of one rule, type and input shape, as printed."""

    rule: str
    op: str
    shapes: str
    count: int
    total: str


def spread_lines(perf: PerfRecord, decimals: int) -> list[SpreadLine]:
    """The spread table; every duration with the same number of decimals, the E2E's own or more."""
    series = [
        ("Device total (E2E)", perf.device_total),
        ("Device span", perf.device_span),
        ("Host wall", perf.host_wall),
        ("Host wall with profiler", perf.profiled_wall),
    ]
    found = [(name, spread) for name, spread in series if spread is not None]
    decimals = spread_decimals([spread for _, spread in found], least=decimals)
    return [spread_line(name, spread, decimals) for name, spread in found]


def spread_decimals(spreads: Sequence[Spread], least: int) -> int:
    """Decimals for the statistics of samples: exact to the nanosecond, or `least` where the E2E needs more."""
    times = [time for s in spreads for time in (s.median_us, s.min_us, s.max_us, s.iqr_us)]
    return decimals_of(times, least, most=max(least, 3))


def spread_line(name: str, spread: Spread, decimals: int) -> SpreadLine:
    """One series of samples as a line."""
    interval = "–"
    if spread.median_low_us is not None and spread.median_high_us is not None:
        interval = f"{us(spread.median_low_us, decimals)} … {us(spread.median_high_us, decimals)}"
    return SpreadLine(
        name=name,
        n=spread.n,
        median=us(spread.median_us, decimals),
        low=us(spread.min_us, decimals),
        high=us(spread.max_us, decimals),
        iqr=us(spread.iqr_us, decimals) if spread.n > 1 else "–",
        relative=percent(spread.relative_iqr) if spread.n > 1 else "–",
        interval=interval,
        outliers=spread.outliers,
    )


def spread_notes(perf: PerfRecord) -> list[str]:
    """What each time of the spread table is."""
    busy = percent(perf.busy_share)
    lines = [
        "Device total: sum of the kernels' durations in one iteration.",
        f"Device span: first kernel's start to last kernel's end; some kernel ran during {busy} of it (median).",
    ]
    if perf.host_wall:
        lines.append("Host wall: the call between two synchronisations, in a second pass without the profiler.")
    if perf.host_wall and perf.profiled_wall and perf.host_wall.median_us > 0:
        cost = perf.profiled_wall.median_us - perf.host_wall.median_us
        share = percent(float(cost / perf.host_wall.median_us))
        lines.append(f"Profiler's cost: {us(cost, 1)} of host time per call ({share} of the host wall).")
    return lines


def iteration_lines(rows: list[IterationTotal]) -> list[IterationLine]:
    half = MOST_ITERATIONS // 2
    shown = rows if len(rows) <= MOST_ITERATIONS else [*rows[:half], *rows[-half:]]
    decimals = decimals_of(time for row in shown for time in (row.device_total_us, row.device_span_us))
    return [
        IterationLine(
            number=row.iteration,
            step="–" if row.step_id is None else str(row.step_id),
            kernels=row.kernels,
            total=us(row.device_total_us, decimals),
            span=us(row.device_span_us, decimals),
            busy=percent(float(row.device_busy_us / row.device_span_us)) if row.device_span_us > 0 else "–",
        )
        for row in shown
    ]


def dropped_lines(rows: list[DroppedRow]) -> list[DroppedLine]:
    """Dropped rows, grouped, longest first; what does not fit on a screen is one last line."""
    groups: dict[tuple[str, str, str], list[Decimal]] = defaultdict(list)
    for row in rows:
        groups[row.rule, row.op, row.input_shapes].append(row.duration_us)
    ranked = sorted(groups.items(), key=lambda group: (-sum(group[1]), group[0]))
    shown, rest = ranked[:MOST_DROPPED], ranked[MOST_DROPPED:]
    if rest:
        others = [duration for _, durations in rest for duration in durations]
        shown.append((("other rules", f"{len(rest)} more kinds, listed in perf.json", ""), others))
    decimals = decimals_of(row.duration_us for row in rows)
    return [
        DroppedLine(rule, op, shapes, len(durations), us(sum(durations, Decimal(0)), decimals))
        for (rule, op, shapes), durations in shown
    ]
