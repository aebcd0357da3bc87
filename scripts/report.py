"""The report of one case: its numbers, then what makes them trustworthy.

Made from perf.json and, where they were measured, the peaks of its device.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts import artifacts, peaks, work
from scripts.artifacts import PerfRecord
from scripts.case_section import case_section, warnings
from scripts.formatting import Markdown, code, md, plural, prose, template
from scripts.peaks import PeaksRecord
from scripts.report_tables import MOST_ITERATIONS, dropped_lines, iteration_lines, spread_lines, spread_notes

MOST_FILES = 8  # named of those that lay beside the source
RULES = {
    "noise": "the flush-and-marker kernel that opens every iteration",
    "before_noise": "ran inside the step, but before its noise kernel",
    "restore": "put back an input that the golden mutates",
    "outside_steps": "ran in no step",
    "warm_up": "ran in a step that is not measured",
    "communication": "moves data between devices",
    "other_device": "ran on another device than the golden",
}


@dataclass(frozen=True)
class Fact:
    """One line of a two-column table or list."""

    name: str
    value: str


def run(perf_json: Path, target: Path, tail: str = "", config: str = "") -> None:
    """Write the report of `perf_json`, then `tail`, to `target`; nothing when there is nothing to report.

    `config` is what its commands give Snakemake before a target.
    """
    perf = artifacts.read(perf_json, PerfRecord)
    artifacts.write_bytes(target, (render(perf, peaks.read_of(perf.profile.key), config) + tail).encode())


def render(perf: PerfRecord, limits: PeaksRecord | None = None, config: str = "") -> str:
    """The report as Markdown; `limits` are the peaks of the case's device, where they were measured.

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
        notes=notes(perf, limits),
        work=work.section([work.work_of(perf, limits)], [limits] if limits else []),
        spread=spread_lines(perf, section.decimals),
        spread_notes=spread_notes(perf),
        iteration_rows=iteration_lines(perf.iterations),
        iterations_left=max(0, len(perf.iterations) - MOST_ITERATIONS),
        dropped=dropped,
        rules=[Fact(name, RULES[name]) for name in RULES if any(row.rule == name for row in dropped)],
        status=perf.status,
        status_detail=status_detail(perf),
        facts=list(facts(perf)),
        remake=reproduce(f"{profile.operator}/{profile.case}", config),
        command=profile.command,
    )


def title(operator: str, kind: str) -> str:
    """`attention_golden` on the CPU → "attention Golden CPU Performance Report"."""
    return f"{operator.removesuffix('_golden') or operator} Golden {kind.upper()} Performance Report"


def reproduce(case_id: str, config: str = "") -> str:
    """The two commands that make a case's report again: from the cached capture, and from a new one."""
    target = shlex.quote(f"reports/{case_id}.md")
    return f"snakemake -j1 {config}{target}\nsnakemake -j1 --forcerun profile {config or '-- '}{target}"


# ---------------------------------------------------------------- notes


def notes(perf: PerfRecord, limits: PeaksRecord | None = None) -> list[Markdown]:
    """What was done to get the numbers, one sentence or two a note."""
    return [
        Markdown(f"Data source: {code(_inside(perf, perf.output.source))}"),
        md(_noise_note(perf)),
        md(f"Each iteration: {_recipe(perf)}"),
        md(_e2e_note(perf)),
        prose(work.cache_note(perf, limits)),
        prose(f"Attribution: {perf.attribution.rstrip('.')}"),
    ]


def _inside(perf: PerfRecord, path: str) -> str:
    """A path as seen from the capture's folder."""
    return path.removeprefix(f"{perf.output.profiler_dir}/")


def _noise_note(perf: PerfRecord) -> str:
    noise = [row for row in perf.dropped if row.rule == "noise"]
    if not noise:
        return "Noise ops: none in the capture, none filtered out"
    types = ", ".join(dict.fromkeys(row.op for row in noise))
    return (
        f"Noise ops ({types}) filtered out by the noise's own signature; "
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
        noise = (
            f"marker (max over {math.prod(profile.noise.shape)} {profile.noise.dtype} values, which flushes no cache)"
        )
    warm_up = plural(profile.warmup, "warm-up call")
    return f"{restore}{noise} → sync → golden call → sync; {profile.cache} cache; {warm_up} before, not profiled"


def _e2e_note(perf: PerfRecord) -> str:
    n = len(perf.iterations)
    if n == 1:
        return "E2E: sum of the golden's kernel durations in the one iteration"
    which = "the median iteration" if n % 2 else "the two iterations around the median, averaged"
    return f"E2E: median over {n} iterations of the sum of the golden's kernel durations; the op table is of {which}"


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
    yield Fact("capture", output.profiler_dir)
    yield Fact("read from", f"{_inside(perf, output.source)}: {output.why}")
    if output.others:
        more = f" and {len(output.others) - MOST_FILES} more" if len(output.others) > MOST_FILES else ""
        yield Fact("beside it", ", ".join(_inside(perf, path) for path in output.others[:MOST_FILES]) + more)
    if output.level or profile.expected_level:
        asked = "" if profile.expected_level in ("", output.level) else f", asked for {profile.expected_level}"
        yield Fact("profiler level", f"{output.level or 'unknown'}{asked}")
