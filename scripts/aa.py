"""`goldenprof aa`: run the same case twice many times, count false differences, and say which change can be seen.

Two ways of comparing are tried, as `goldenprof compare` does them: in turns in one session, and between two separate
runs. Every verdict FASTER or SLOWER is false. The result is printed as Markdown and kept in aa.json beside the case's
perf.json, where comparisons of two runs find it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from scripts import aa_runs, artifacts, speedup
from scripts.aa_record import BETWEEN_RUNS, IN_ONE_SESSION, AaRecord, AaSeries, series_of
from scripts.compare import chosen_cases
from scripts.errors import ConfigError
from scripts.formatting import percent, template
from scripts.list_cases import add_plan_options, load_plan
from scripts.plan import PlannedCase

PAIRS = 20


def add_parser(subparsers: Any, summary: str) -> None:
    """The command line of `goldenprof aa`."""
    parser = subparsers.add_parser(
        "aa",
        help=summary,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="+", metavar="CASE", help="cases (operator/case, * allowed)")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of each kind (default: %(default)s)")
    parser.add_argument("--rounds", type=int, help="samples on each side of a pair (default: the case's iterations)")
    parser.add_argument(
        "--gate", type=float, default=100 * speedup.PRACTICAL, help="practical gate in percent (default: %(default)g)"
    )
    add_plan_options(parser)
    parser.add_argument("-o", "--output", type=Path, help="write the Markdown here instead of printing it")


def main(options: argparse.Namespace) -> int:
    """0 whatever was found: a noisy machine is a result."""
    if options.pairs < 1:
        raise ConfigError(f"--pairs {options.pairs} compares nothing; give at least 1.")
    if options.rounds is not None and options.rounds < speedup.FEWEST:
        raise ConfigError(f"--rounds {options.rounds} is too few for a verdict; at least {speedup.FEWEST} are needed.")
    gate = speedup.gate_of(options.gate)
    records = []
    for planned in chosen_cases(load_plan(options), options.what):
        print(f"{planned.case.id} …", file=sys.stderr, flush=True)
        records.append(measure(planned, options.pairs, options.rounds, gate))
        artifacts.write(planned.folder / "aa.json", records[-1])
    text = render(records)
    if options.output:
        artifacts.write_bytes(options.output, text.encode())
    else:
        print(text, end="")
    return 0


def measure(planned: PlannedCase, pairs: int, rounds: int | None, gate: float) -> AaRecord:
    """The A/A test of one case; raises CaseFailure when it cannot be measured."""
    from scripts import compare_golden

    case = planned.case
    rounds = rounds or max(case.settings.iterations, speedup.FEWEST)
    before = _load()
    runs = aa_runs.device_totals(case, 2 * pairs, rounds)
    walls, device = compare_golden.same_twice(case, pairs, rounds)
    return AaRecord(
        operator=case.operator,
        case=case.case,
        key=planned.key,
        device=device,
        measured_at=datetime.now().astimezone().isoformat(),
        rounds=rounds,
        gate=gate,
        load_1min=(before, _load()),
        series=[
            series_of(IN_ONE_SESSION, walls, gate, paired=True),
            series_of(BETWEEN_RUNS, list(zip(runs[::2], runs[1::2], strict=True)), gate, paired=False),
        ],
    )


def render(records: Sequence[AaRecord]) -> str:
    """The results as Markdown."""
    lines = [_Line(record, series) for record in records for series in record.series]
    first = records[0]
    return template("aa.md.j2").render(
        lines=lines,
        gate=f"{100 * first.gate:g} %",
        device=f"{first.device.name} ({first.device.model})",
        measured_at=first.measured_at,
        loads=", ".join(f"{r.operator}/{r.case}: {r.load_1min[0]} to {r.load_1min[1]}" for r in records),
    )


class _Line:
    """One line of the table, as printed."""

    def __init__(self, record: AaRecord, series: AaSeries) -> None:
        self.case = f"{record.operator}/{record.case}"
        self.what = series.what
        self.pairs = f"{series.pairs} × {record.rounds}"
        self.verdicts = f"{series.same} / {series.undecided}"
        low, high = (100 * share for share in (series.false_low, series.false_high))
        self.false = f"{series.false} ({low:.0f} … {high:.0f} %)"
        self.largest = percent(series.largest)
        self.gate = _percent(series.quiet_gate)
        self.smallest = _percent(series.smallest_change)


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:g} %"


def _load() -> str:
    return f"{os.getloadavg()[0]:.2f}"
