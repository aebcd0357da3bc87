"""Fill in the measured parts of docs/numbers.md, by real runs on this machine.

    python -m benchmarks.numbers_page example host_wall aa     (or some of them)

Each part stands between `<!-- begin NAME -->` and `<!-- end NAME -->` and is replaced as a whole.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

from scripts import aa, artifacts, kernel_table, key, locate_output, make_inputs, parse_csv, work
from scripts import profile as profile_step
from scripts.artifacts import PerfRecord
from scripts.cases import Case
from scripts.compare import chosen_cases
from scripts.devices import identity
from scripts.formatting import percent, us
from scripts.plan import ROOT, Plan

PAGE = ROOT / "docs" / "numbers.md"
EXAMPLE = "attention_golden/perf_p0_small"
AA_CASES = ("attention_golden/smoke", "attention_golden/perf_p0_small", "per_token_int8_quant_golden/smoke")
PAIRS, ROUNDS = 20, 10


# ---------------------------------------------------------------- the worked example


def example() -> str:
    """One case, measured now: from the rows of the capture to the E2E, and what other rules would have made of them."""
    case = chosen_cases(Plan.load({}), [EXAMPLE])[0].case
    with tempfile.TemporaryDirectory() as folder:
        perf = _measure(case, Path(folder))
        naive = _naive(Path(folder), perf)
    return "\n".join([*_header(case, perf), *_iterations(perf), *_three_times(perf), *naive, *_work(perf)]) + "\n"


def _measure(case: Case, folder: Path) -> PerfRecord:
    roots = (ROOT,)
    digest = key.case_digest(case, Path(case.golden), roots)
    make_inputs.run(case, key.key(digest, identity.resolve(case.settings.device)), folder, roots)
    profile_step.run(folder, roots, lambda phase: None)
    locate_output.run(folder)
    parse_csv.run(folder)
    return artifacts.read(folder / "perf.json", PerfRecord)


def _header(case: Case, perf: PerfRecord) -> list[str]:
    profile = perf.profile
    settings = (
        f"{profile.iterations} iterations, {profile.warmup} warm-up calls, {profile.cache} cache "
        f"({profile.noise.mib:g} MiB of noise)"
    )
    versions = ", ".join(f"{name} {version}" for name, version in profile.versions.items())
    return [
        f"`{case.id}` on {profile.device.model}, {versions}, {profile.started_at[:19]}; {settings}; load of the host "
        f"{profile.environment.get('load_1min', 'unknown')}.",
        "",
        f"The capture has {_rows(perf)} rows. Of the dropped ones, by rule: {_dropped(perf)}.",
        "",
    ]


def _rows(perf: PerfRecord) -> int:
    return len(perf.dropped) + sum(total.kernels for total in perf.iterations)


def _dropped(perf: PerfRecord) -> str:
    counts: dict[tuple[str, str], int] = {}
    for row in perf.dropped:
        counts[row.rule, row.op] = counts.get((row.rule, row.op), 0) + 1
    return ", ".join(f"{count} × `{op}` ({rule})" for (rule, op), count in counts.items())


def _iterations(perf: PerfRecord) -> list[str]:
    lines = ["| iteration | kernels | device total | device span |", "|---:|---:|---:|---:|"]
    lines += [
        f"| {total.iteration} | {total.kernels} | {us(total.device_total_us, 1)} | {us(total.device_span_us, 1)} |"
        for total in perf.iterations
    ]
    spread = perf.device_total
    middle = "the middle one" if spread.n % 2 else "the mean of the two in the middle"
    lines += ["", f"**E2E = {us(perf.e2e_us, 1)}**: the median of the device totals, {middle}."]
    if spread.median_low_us is not None and spread.median_high_us is not None:
        lines[-1] += (
            f" Its 95 % interval is {us(spread.median_low_us, 1)} … {us(spread.median_high_us, 1)}; the IQR is "
            f"{percent(spread.relative_iqr)} of it; {spread.outliers} of {spread.n} samples are outliers, and none is "
            "left out."
        )
    ops = ", ".join(f"`{row.op}` {row.count} × {us(row.mean_us, 1)}" for row in perf.ops[:4])
    return [*lines, "", f"Its largest parts: {ops}. All {len(perf.ops)} of them add up to the E2E exactly.", ""]


def _three_times(perf: PerfRecord) -> list[str]:
    lines = ["| time | median | what it is |", "|:---|---:|:---|"]
    lines.append(f"| device total | {us(perf.device_total.median_us, 1)} | the kernels, one after the other |")
    span = f"from the first kernel's start to the last one's end; busy for {percent(perf.busy_share)} of it"
    lines.append(f"| device span | {us(perf.device_span.median_us, 1)} | {span} |")
    if perf.host_wall and perf.profiled_wall:
        lines.append(f"| host wall | {us(perf.host_wall.median_us, 1)} | the call, without the profiler |")
        lines.append(f"| host wall with profiler | {us(perf.profiled_wall.median_us, 1)} | the call, with it |")
    return [*lines, ""]


def _naive(folder: Path, perf: PerfRecord) -> list[str]:
    """What other rules make of the same capture."""
    table = kernel_table.read(folder / perf.output.source, perf.output.source_kind)
    totals = sum((total.device_total_us for total in perf.iterations), Decimal(0))
    maxima = table.op.where(lambda op: op in perf.profile.noise.types)
    first = next(row for row in table.in_time if maxima[row])
    without_first = perf.all_rows_us - table.duration_us(first)
    return [
        "The same rows by rules that are in use elsewhere:",
        "",
        "| rule | result | off by |",
        "|:---|---:|---:|",
        _line("as above", perf.e2e_us, perf.e2e_us),
        _line("summed over the iterations, not divided", totals, perf.e2e_us),
        _line("only the first maximum dropped, summed", without_first, perf.e2e_us),
        _line("nothing dropped, divided by the iterations", perf.all_rows_us / len(perf.iterations), perf.e2e_us),
        "",
    ]


def _line(rule: str, value: Decimal, right: Decimal) -> str:
    off = "–" if value == right else f"{float(value / right):.1f}x"
    return f"| {rule} | {us(value, 1)} | {off} |"


def _work(perf: PerfRecord) -> list[str]:
    found = work.work_of(perf, None)
    if not found.flops or not found.bytes_moved:
        return []
    return [
        f"Work: {found.flops:,} FLOPs of matmul-like operators and {found.bytes_moved:,} bytes of inputs and results, "
        f"so {found.tflops:.3g} TFLOP/s and {found.gbps:.3g} GB/s at {found.intensity:.3g} FLOP per byte.",
        "",
    ]


# ---------------------------------------------------------------- agreement and A/A


def host_wall() -> str:
    """The table of benchmarks/host_wall.py."""
    from benchmarks import host_wall as benchmark

    found, seconds = benchmark.run(benchmark.ROUNDS, threads=1)
    return benchmark.table(found, benchmark.ROUNDS, seconds)


def aa_tests() -> str:
    """The table of `goldenprof aa`."""
    records = []
    for planned in chosen_cases(Plan.load({}), AA_CASES):
        print(f"{planned.case.id} …", file=sys.stderr, flush=True)
        records.append(aa.measure(planned, PAIRS, ROUNDS, 0.02))
    return aa.render(records)


# ---------------------------------------------------------------- the page

PARTS: dict[str, Callable[[], str]] = {"example": example, "host_wall": host_wall, "aa": aa_tests}


def put(page: str, name: str, text: str) -> str:
    """`page` with its part `name` replaced."""
    pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{PAGE} has no part {name}: write <!-- begin {name} --> and <!-- end {name} --> into it.")
    return pattern.sub(lambda found: f"{found[1]}\n{text.strip()}\n\n{found[2]}", page)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the parts that are named and write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    for name in parser.parse_args(argv).parts:
        text = PARTS[name]()
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), name, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
