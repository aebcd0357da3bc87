"""`goldenprof compare`: a golden against candidates, or two results of the same cases.

goldenprof compare attention_golden/p0 --candidate torch.compile --candidate mine.py:attention
goldenprof compare prof/attention_golden/p0/<key> other/prof/attention_golden/p0/<key> --across versions
"""

from __future__ import annotations

import argparse
import fnmatch
import statistics
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts import artifacts, compare_results, compare_tables, speedup
from scripts.compare_tables import Judged
from scripts.errors import ConfigError
from scripts.list_cases import add_plan_options, load_plan
from scripts.plan import Plan, PlannedCase
from scripts.result_identity import FACETS

if TYPE_CHECKING:  # it imports torch
    from scripts.compare_golden import CaseTimes, Timed

ROUNDS = 30


def add_parser(subparsers: Any, summary: str) -> None:
    """The command line of `goldenprof compare`."""
    parser = subparsers.add_parser(
        "compare",
        help=summary,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        nargs="+",
        metavar="CASE|RESULT",
        help="cases (operator/case, * allowed), or two results: perf.json or folders",
    )
    parser.add_argument(
        "--candidate",
        action="append",
        default=[],
        metavar="SPEC",
        help="module:function, path/file.py:function or torch.compile; may be given several times",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="calls of each callable (default: %(default)s)")
    parser.add_argument(
        "--gate", type=float, default=100 * speedup.PRACTICAL, help="practical gate in percent (default: %(default)g)"
    )
    parser.add_argument("--rtol", type=float, help="relative tolerance of outputs (default: torch.testing's, by dtype)")
    parser.add_argument("--atol", type=float, help="absolute tolerance of outputs, with --rtol")
    parser.add_argument(
        "--across",
        default="",
        metavar="FACETS",
        help=f"what two results may differ in, with commas: {', '.join(FACETS)}",
    )
    add_plan_options(parser)
    parser.add_argument("-o", "--output", type=Path, help="write the Markdown here instead of printing it")


def main(options: argparse.Namespace) -> int:
    """0 when everything was compared, 1 when a candidate failed or returned something else."""
    if options.rounds < speedup.FEWEST:
        raise ConfigError(f"--rounds {options.rounds} is too few for a verdict; at least {speedup.FEWEST} are needed.")
    if (options.rtol is None) != (options.atol is None):
        raise ConfigError("--rtol and --atol belong together: give both or neither.")
    for name, tolerance in (("--rtol", options.rtol), ("--atol", options.atol)):
        if tolerance is not None and not tolerance >= 0:
            raise ConfigError(f"{name} {tolerance:g} is no tolerance; give a number of at least 0.")
    gate = speedup.gate_of(options.gate)
    text, code = _candidates(options, gate) if options.candidate else _results(options, gate)
    if options.output:
        artifacts.write_bytes(options.output, text.encode())
    else:
        print(text, end="")
    return code


# ---------------------------------------------------------------- candidates


def _candidates(options: argparse.Namespace, gate: float) -> tuple[str, int]:
    planned = chosen_cases(load_plan(options), options.what)
    from scripts import compare_golden
    from scripts.candidates import Tolerance

    tolerance = Tolerance(options.rtol, options.atol)
    found = []
    for one in planned:
        print(f"{one.case.id} …", file=sys.stderr, flush=True)
        found.append(compare_golden.measure_case(one.case, options.candidate, options.rounds, tolerance))
    judged = judge_all(found, gate)
    text = compare_tables.candidates_report(judged, _facts(found, options.rounds, options.gate, str(tolerance)))
    return text, int(any(one.comparison is None for one in judged))


def chosen_cases(plan: Plan, patterns: Sequence[str]) -> list[PlannedCase]:
    """The cases of a plan that some patterns name, in the file's order; ConfigError when one names none."""
    for pattern in patterns:
        if not fnmatch.filter(plan.by_id, pattern):
            operator, _, case = pattern.partition("/")
            plan.case(operator, case)  # says what is near
    return [one for name, one in plan.by_id.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def judge_all(found: Sequence[CaseTimes], practical: float) -> list[Judged]:
    """The verdict on every candidate of every case; they are held together, see speedup.together."""
    judged = [_judged(case, timed, practical) for case in found for timed in case.candidates]
    comparisons = iter(speedup.together([one.comparison for one in judged if one.comparison]))
    return [
        Judged(one.case, one.candidate, one.basis, next(comparisons) if one.comparison else None, one.problem)
        for one in judged
    ]


def _judged(case: CaseTimes, timed: Timed, practical: float) -> Judged:
    if timed.problem:
        return Judged(case, timed.name, "", None, timed.problem)
    on_device = bool(case.golden.device_us and timed.device_us)
    basis = "device total" if on_device else "host wall"
    golden, candidate = (case.golden.device_us, timed.device_us) if on_device else (case.golden.wall_us, timed.wall_us)
    return Judged(case, timed.name, basis, speedup.judge(golden, candidate, paired=True, practical=practical), "")


def _facts(found: Sequence[CaseTimes], rounds: int, gate: float, tolerance: str) -> list[str]:
    bases = dict.fromkeys("device total" if case.golden.device_us else "host wall" for case in found)
    versions = dict.fromkeys(f"{name} {version}" for case in found for name, version in case.versions.items())
    notes = dict.fromkeys(case.device_note for case in found if case.device_note)
    return [
        f"Device: {', '.join(dict.fromkeys(f'{case.device.name} ({case.device.model})' for case in found))}",
        f"Versions: {', '.join(versions)}",
        f"Time: {', '.join(bases)}, median of {rounds} rounds; in a round each is called once, in rotated order, in "
        "one process",
        *(f"Note: {note}" for note in notes),
        f"Cache: {', '.join(dict.fromkeys(case.cache for case in found))}",
        f"Outputs: checked against the golden's with {tolerance}",
        "Verdict: FASTER or SLOWER when the 95 % interval (bootstrap over rounds) leaves out 1 and the medians differ "
        f"by more than {gate:g} %",
        *(
            f"{case.case}: host wall of the golden {_median(case.golden.wall_us)} us"
            + "".join(f", {one.name} {_median(one.wall_us)} us" for one in case.candidates if one.wall_us)
            for case in found
            if case.golden.device_us
        ),
    ]


def _median(samples: Sequence[Decimal]) -> str:
    return f"{statistics.median(samples):.1f}"


# ---------------------------------------------------------------- results


def _results(options: argparse.Namespace, gate: float) -> tuple[str, int]:
    if len(options.what) != 2:
        raise ConfigError(
            "Give two results to compare (perf.json files or folders), or cases and at least one --candidate."
        )
    first, second = (compare_results.find(Path(place)) for place in options.what)
    current = _current_names(options.cases)
    pairs, alone = compare_results.pair_up(first, second, current)
    if not pairs:
        raise ConfigError(f"{options.what[0]} and {options.what[1]} have no case in common: {', '.join(alone)}.")
    across = [facet for facet in options.across.split(",") if facet]
    compared = compare_results.compare(pairs, across, gate, current)
    return compare_tables.results_report(compared, alone, (options.what[0], options.what[1])), 0


def _current_names(cases: Path) -> dict[str, str]:
    """What former ids are called now, out of a cases file's `aliases`; results can be compared without one."""
    if not cases.exists():
        return {}
    from scripts.cases_file import load

    return {alias: case.id for case in load(cases) for alias in case.aliases}
