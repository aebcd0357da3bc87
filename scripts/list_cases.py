"""`goldenprof list`: the cases of cases.yaml, each with its key and what became of it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from scripts import outcomes
from scripts.formatting import plural
from scripts.plan import SELECTION_KEYS, Plan, PlannedCase
from scripts.status import Status

CASES = Path("config/cases.yaml")
HEADER = ("case", "tier", "sweep", "cached", "status", "key")


@dataclass(frozen=True)
class CaseLine:
    """One line of the list."""

    case: str
    tier: str
    sweep: str  # whether a sweep takes it by itself
    cached: str
    status: str
    key: str


def add_parser(subparsers: Any, summary: str) -> None:
    """The options of `goldenprof list`."""
    parser = subparsers.add_parser("list", help=summary)
    add_plan_options(parser)
    parser.add_argument("--tier", help="only cases of this tier; several with commas")
    parser.add_argument("--family", help="only operators of this family; several with commas")
    parser.add_argument(
        "--match", metavar="PATTERN", help="only cases whose OPERATOR/CASE fits, such as '*attention*/p0'"
    )


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Options of every verb that reads the cases file."""
    parser.add_argument("--cases", type=Path, default=CASES, help="cases file (default: %(default)s)")
    parser.add_argument("--device", help="as if every case had this `device`")


def load_plan(options: argparse.Namespace) -> Plan:
    """The plan of the cases file that `options` name."""
    config = {"cases": options.cases, "device": options.device}
    selection = {name: getattr(options, name, None) for name in SELECTION_KEYS}
    return Plan.load({name: value for name, value in {**config, **selection}.items() if value})


def main(options: argparse.Namespace) -> int:
    """Print the list."""
    plan = load_plan(options)
    swept = {planned.case.id for planned in plan.sweep()}
    lines = [line(planned, planned.case.id in swept) for planned in plan.selected()]
    for row in table(HEADER, [astuple(entry) for entry in lines]):
        print(row)
    counts = ", ".join(f"{count} {status}" for status, count in Counter(entry.status for entry in lines).most_common())
    print(f"\n{plural(len(lines), 'case')}: {counts}; a sweep takes {len(swept)}")
    return 0


def line(planned: PlannedCase, swept: bool) -> CaseLine:
    """What is known of a case without running anything."""
    cached = "yes" if (planned.folder / "profile.json").exists() else "no"
    sweep = "yes" if swept else "no"
    return CaseLine(planned.case.id, planned.case.tier or "-", sweep, cached, status(planned), planned.key)


def status(planned: PlannedCase) -> str:
    """How the case ended, `profiled` without numbers yet, or `not_run`."""
    outcome = outcomes.read(planned.folder)
    if outcome.status != outcomes.NOT_RUN:
        return outcome.status
    if (planned.folder / "profile.json").exists():
        return "profiled"
    return str(Status.DEVICE_UNAVAILABLE) if planned.problem else outcome.status


def table(header: Iterable[str], rows: list[tuple[str, ...]]) -> list[str]:
    """`rows` under `header` in aligned columns."""
    everything = [tuple(header), *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(everything[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in everything
    ]
