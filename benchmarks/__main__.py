"""Measure every promise about speed and print the table; `--write docs/performance.md` writes the page.

    python -m benchmarks [--quick] [--slow] [--only NAME …] [--write FILE]

`--quick` takes small sizes, at which promises need not hold. `--slow` measures a deliberately slow variant of ours
instead: every line must then be missed, and the exit code is 0 when it is. Otherwise it is 1 when a line is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks import device, scaling, single, sweep
from benchmarks.lines import Line
from benchmarks.sweep import Scale
from scripts.devices.identity import survey

HEADER = ("what", "ours", "the other side", "ratio", "promised", "kept", "part")


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    trivial: int = 50
    cases: tuple[int, ...] = (100, 1000, 3000)
    promised: int = 1000  # the number of cases that the promises are about
    rows: int = 1_000_000
    mib: int = 1024
    product: int = 2048
    noisy: int = 8
    rounds: int = 4  # of four runs: spreads differ by half from run to run
    settings: int = 20
    repeats: int = 2


QUICK = Sizes(
    settings=4, trivial=4, cases=(20,), promised=20, rows=20_000, mib=16, product=1024, noisy=2, rounds=1, repeats=1
)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--slow", action="store_true", help="deliberately slow variants, which must miss every line")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="some of the parts")
    parser.add_argument("--write", type=Path, help="file for the table; with --only, its rows are replaced in it")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    scales: list[Scale] = []
    lines: list[Line] = []
    rows: list[str] = []
    print(_row(HEADER), _row(["---"] * len(HEADER)), sep="\n", flush=True)
    for name in options.only or PARTS:
        for line in PARTS[name](sizes, options.slow, scales):
            lines.append(line)
            rows.append(_row([*line.cells(), name]))
            print(rows[-1], flush=True)
    if options.write:
        options.write.write_text(renewed(options.write.read_text(), rows) if options.only else page(rows, scales))
    missed = [line for line in lines if not line.holds]
    if options.slow:
        return 0 if len(missed) == len(lines) else 1
    return 1 if missed else 0


def _dag(sizes: Sizes, slow: bool, scales: list[Scale]) -> Iterable[Line]:
    for cases in (sizes.promised,) if slow else sizes.cases:
        repeats = sizes.repeats if cases <= sizes.promised else 1
        found = list(sweep.against_empty(cases, repeats, slow))
        scales += found
        if cases == sizes.promised:
            yield from sweep.lines(found)


PARTS: dict[str, Callable[[Sizes, bool, list[Scale]], Iterable[Line]]] = {
    "startup": lambda sizes, slow, _: single.start_up(slow),
    "parsing": lambda sizes, slow, _: single.parsing(sizes.rows, slow),
    "inputs": lambda sizes, slow, _: single.inputs(sizes.mib, slow),
    "device": lambda sizes, slow, _: device.locked_share(sizes.product, slow),
    "profiled": lambda sizes, slow, _: sweep.profiled(sizes.trivial, slow),
    "settings": lambda sizes, slow, _: sweep.settings(sizes.settings, slow),
    "dag": _dag,
    "scaling": lambda sizes, slow, _: scaling.lines(sizes is QUICK, slow),
    "noise": lambda sizes, slow, _: device.noise(sizes.noisy, sizes.rounds, slow),
}


def page(rows: list[str], scales: list[Scale]) -> str:
    """docs/performance.md."""
    parts = [
        INTRODUCTION,
        f"{_machine()}\n",
        "\n".join([_row(HEADER), _row(["---"] * len(HEADER)), *rows]),
    ]
    if len({scale.cases for scale in scales}) > 1:
        parts += ["\n## How cost grows\n", _growth(scales), "\n" + DOMINATES.read_text(encoding="utf-8")]
    return "\n".join(parts) + "\n"


INTRODUCTION = """# Performance

Written by `make bench`. Each line measures two sides in the same run: ours, and what it is compared with. `ratio` says
how many times longer ours takes, with a promise of ≥ how many times faster it is; `promised` is what this project holds
itself to, and a line that is not `kept` is a fault of ours. "Empty rules" are a workflow with the same jobs and files
that does nothing: Snakemake's own cost. `python -m benchmarks --only dag` measures the lines of one part again, and
with `--quick` at small sizes. Seconds are wall time; those of [scale.md](scale.md) are processor time.
"""
DOMINATES = Path(__file__).with_name("what_dominates.md")
AGAIN = "Measured again "


def renewed(text: str, rows: list[str]) -> str:
    """docs/performance.md with these rows as measured now, as its end says; ValueError for a row that is not there."""
    new = {_what(row): row for row in rows}
    old = [line for line in text.rstrip().splitlines() if not line.startswith(AGAIN)]
    if missing := new.keys() - set(map(_what, old)):
        raise ValueError(f"the page has no row {', '.join(sorted(missing))}: write it without --only")
    kept = [new.get(_what(row), row) for row in old]
    again = f"{AGAIN}{date.today().isoformat()}, load {os.getloadavg()[0]:.1f}: {'; '.join(new)}."
    return "\n".join(kept).rstrip() + f"\n\n{again}\n"


def _what(row: str) -> str:
    return row.split(" | ")[0].removeprefix("| ")


def _machine() -> str:
    load = os.getloadavg()
    gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{survey('cpu').models[0]} cores, {gib:.0f} GiB, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}, Snakemake {version('snakemake')}, torch {version('torch')}; "
        f"load {load[0]:.1f} (1 min), {load[2]:.1f} (15 min) at the end; {date.today().isoformat()}."
    )


def _growth(scales: list[Scale]) -> str:
    """A table and a plot of seconds over the number of cases."""
    events = list(dict.fromkeys(scale.event for scale in scales))
    counts = sorted({scale.cases for scale in scales})
    found = {(scale.event, scale.cases): scale for scale in scales}
    rows = [_row(["seconds, ours / empty rules", *(f"{count} cases" for count in counts)])]
    rows.append(_row(["---"] * (1 + len(counts))))
    for event in events:
        cells = [found[event, count] for count in counts]
        rows.append(_row([event, *(f"{cell.ours:.1f} / {cell.empty:.1f}" for cell in cells)]))
    plots = []
    for event in ("nothing to do", "parser and reports stale"):
        ours, empty = ([getattr(found[event, count], side) for count in counts] for side in ("ours", "empty"))
        place = "upper" if ours[-1] > empty[-1] else "lower"
        plots.append(
            f'```mermaid\nxychart-beta\n    title "{event}: ours ({place} line) and empty rules"\n'
            f'    x-axis "cases" [{", ".join(map(str, counts))}]\n    y-axis "seconds"\n'
            f"    line [{', '.join(f'{value:.2f}' for value in ours)}]\n"
            f"    line [{', '.join(f'{value:.2f}' for value in empty)}]\n```"
        )
    return "\n".join(rows) + "\n\n" + "\n\n".join(plots)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
