"""The report of one case: the seed layout, then what makes its numbers trustworthy. Made from perf.json alone."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from scripts import artifacts
from scripts.artifacts import DroppedRow, IterationTotal, PerfRecord, Spread
from scripts.case_section import case_section
from scripts.formatting import Markdown, code, decimals_of, md, percent, plural, template, us

MOST_ITERATIONS = 24  # lines of the iteration table
MOST_DROPPED = 16  # lines of the dropped-row table: a screenful with its legend
RULES = {
    "noise": "the flush-and-marker kernel that opens every iteration",
    "before_noise": "ran inside the step, but before its noise kernel",
    "restore": "put back an input that the golden mutates",
    "outside_steps": "ran in no step",
    "warm_up": "ran in a step that is not measured",
    "communication": "moves data between devices",
}


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


@dataclass(frozen=True)
class Fact:
    """One line of a two-column table or list."""

    name: str
    value: str


def run(perf_json: Path, target: Path) -> None:
    """Write the report of `perf_json` to `target`; nothing is written when there is nothing to report."""
    artifacts.write_bytes(target, render(artifacts.read(perf_json, PerfRecord)).encode())


def render(perf: PerfRecord) -> str:
    """The report as Markdown.

    Raises CaseFailure when there is nothing to report, ArtifactError when perf.json contradicts itself.
    """
    section = case_section(perf)
    profile = perf.profile
    dropped = dropped_lines(perf.dropped)
    warned = warnings(perf)
    return template("report.md.j2").render(
        title=title(profile.operator, profile.device.kind),
        stand_in=profile.device.stand_in,
        model=profile.device.model,
        device=profile.device.name,
        timestamp=profile.started_at,
        iterations=profile.iterations,
        warnings=warned,
        warnings_title=plural(len(warned), "warning"),
        case=section,
        notes=notes(perf),
        spread=spread_lines(perf, section.decimals),
        spread_notes=spread_notes(perf),
        iteration_rows=_iteration_lines(perf.iterations),
        iterations_left=max(0, len(perf.iterations) - MOST_ITERATIONS),
        dropped=dropped,
        rules=[Fact(name, RULES[name]) for name in RULES if any(row.rule == name for row in dropped)],
        status=perf.status,
        status_detail=status_detail(perf),
        facts=list(facts(perf)),
        remake=reproduce(f"{profile.operator}/{profile.case}"),
        command=profile.command,
    )


def title(operator: str, kind: str) -> str:
    """`attention_golden` on the CPU → "attention Golden CPU Performance Report"."""
    return f"{operator.removesuffix('_golden') or operator} Golden {kind.upper()} Performance Report"


def reproduce(case_id: str) -> str:
    """The two commands that make a case's report again: from the cached capture, and from a new one."""
    target = shlex.quote(f"reports/{case_id}.md")
    return f"snakemake -j1 {target}\nsnakemake -j1 {target} --forcerun profile"


def warnings(perf: PerfRecord) -> list[str]:
    """Warnings of the profiling and of the parsing step, each once."""
    return list(dict.fromkeys([*perf.profile.warnings, *perf.warnings]))


# ---------------------------------------------------------------- notes


def notes(perf: PerfRecord) -> list[Markdown]:
    """What was done to get the numbers, in the seed's words where they are true."""
    source = perf.output.source.removeprefix(f"{perf.profile.profiler_dir}/")
    return [
        Markdown(f"Data source: {code(source)}"),
        md(_noise_note(perf)),
        md(f"Each iteration: {_recipe(perf)}"),
        md(_e2e_note(perf)),
        md(f"Attribution: {perf.attribution}"),
    ]


def _noise_note(perf: PerfRecord) -> str:
    noise = [row for row in perf.dropped if row.rule == "noise"]
    if not noise:
        return "Noise ops: none in the capture, none filtered out"
    types = ", ".join(dict.fromkeys(row.op for row in noise))
    return (
        f"Noise ops ({types}) filtered out where type and input shapes are both the noise's; "
        "an op of the same type that the golden launches is kept"
    )


def _recipe(perf: PerfRecord) -> str:
    profile = perf.profile
    if not profile.noise.types:
        return "as the capture was made, without noise injection of this tool"
    restore = f"restore of {', '.join(profile.restored)} → " if profile.restored else ""
    if profile.cache == "cold":
        noise = f"noise injection ({profile.noise.mib:g}MiB randn + max, the buffer drawn once)"
    else:
        noise = f"marker (max over {profile.noise.shape} of {profile.noise.dtype}, too small to flush a cache)"
    warm_up = plural(profile.warmup, "warm-up call")
    return f"{restore}{noise} → sync → golden call → sync; {profile.cache} cache; {warm_up} before, not profiled"


def _e2e_note(perf: PerfRecord) -> str:
    n = len(perf.iterations)
    if n == 1:
        return "E2E: sum of the golden's kernel durations in the one iteration"
    which = "the median iteration" if n % 2 else "the two iterations around the median, averaged"
    return f"E2E: median over {n} iterations of the sum of the golden's kernel durations; the op table is of {which}"


# ---------------------------------------------------------------- spread


def spread_lines(perf: PerfRecord, decimals: int) -> list[SpreadLine]:
    """The spread table; every duration with the same number of decimals, the E2E's own or more."""
    series = [
        ("Device total (E2E)", perf.device_total),
        ("Device span", perf.device_span),
        ("Host wall", perf.host_wall),
        ("Host wall with profiler", perf.profiled_wall),
    ]
    found = [(name, spread) for name, spread in series if spread is not None]
    decimals = decimals_of(
        (time for _, spread in found for time in _times(spread)), least=decimals, most=max(decimals, 3)
    )
    return [spread_line(name, spread, decimals) for name, spread in found]


def _times(spread: Spread) -> list[Decimal]:
    times = [spread.median_us, spread.min_us, spread.max_us, spread.iqr_us, spread.median_low_us, spread.median_high_us]
    return [time for time in times if time is not None]


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
    lines = [
        "Device total: sum of the kernels' durations in one iteration.",
        f"Device span: from the first kernel's start to the last one's end; a kernel ran during "
        f"{percent(perf.busy_share)} of it (median).",
    ]
    if perf.host_wall:
        lines.append("Host wall: the call between two synchronisations, in a second pass without the profiler.")
    if perf.host_wall and perf.profiled_wall and perf.host_wall.median_us > 0:
        cost = perf.profiled_wall.median_us - perf.host_wall.median_us
        share = percent(float(cost / perf.host_wall.median_us))
        lines.append(f"Profiler's cost: {us(cost, 1)} of host time per call ({share} of the host wall).")
    return lines


def _iteration_lines(rows: list[IterationTotal]) -> list[IterationLine]:
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


# ---------------------------------------------------------------- rows that do not count


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


# ---------------------------------------------------------------- where it comes from


def status_detail(perf: PerfRecord) -> str:
    """How many iterations stand behind the numbers, and whether they show the same work."""
    kernels = sorted({row.kernels for row in perf.iterations})
    each = f"{plural(kernels[0], 'kernel')} in each" if len(kernels) == 1 else f"{kernels[0]} to {kernels[-1]} kernels"
    return f"{len(perf.iterations)} of {plural(perf.profile.iterations, 'iteration')} measured, {each}."


def facts(perf: PerfRecord) -> Iterator[Fact]:
    """Device, versions, environment, settings and the files behind the report."""
    profile, output = perf.profile, perf.output
    physical = f", physical id {profile.device.physical_id}" if profile.device.physical_id else ""
    yield Fact("device", f"{profile.device.name}: {profile.device.model}{physical}")
    yield from (Fact(name, value) for name, value in profile.versions.items())
    yield from (Fact(name, value) for name, value in profile.environment.items())
    yield Fact("settings", ", ".join(f"{name}={value}" for name, value in profile.settings.items()))
    yield Fact("content key", profile.key)
    yield Fact("read from", f"{output.source} ({output.why})")
    if output.others:
        yield Fact("beside it", ", ".join(output.others))
    if output.level or profile.expected_level:
        asked = f", asked for {profile.expected_level}" if profile.expected_level else ""
        yield Fact("profiler level", f"{output.level or 'unknown'}{asked}")
