"""What the workflow adds to Snakemake's own cost, and what a case costs when all of them are profiled in one run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import project
from benchmarks.lines import Line
from benchmarks.project import Checkout

ALIKE_LIMITS = {
    "nothing to do": 1.5,
    "`-n` of one target": 1.4,
    "reports stale": 1.5,
    "parser and reports stale": 1.8,
}
FRESH_CASES = 3  # measured in a process of their own, for the cost of one
SLOW = """
import time


def _slow(work):
    def slowed(*arguments, **options):
        time.sleep(SECONDS)
        return work(*arguments, **options)

    return slowed


NAME = _slow(NAME)
"""


@dataclass(frozen=True)
class Scale:
    """Seconds of ours and of the same DAG with empty rules, at one number of cases."""

    cases: int
    event: str
    ours: float
    empty: float
    alike: float  # empty rules in a Python that is set as ours is


def profiled(cases: int, slow: bool = False) -> Iterator[Line]:
    """`cases` trivial cases in one `snakemake -j1`, against a fresh process for each; `slow`: a run for each."""
    with tempfile.TemporaryDirectory() as folder:
        made = project.checkout(Path(folder, "ours"), cases)
        made.edit_cases("noise_mib: 1", "noise_mib: 1, cache: warm")
        start = time.perf_counter()
        if slow:
            for case in made.cases:
                made.seconds("-j1", f"reports/{case}.md")
        else:
            made.seconds("-j1", *(f"reports/{case}.md" for case in made.cases))
        per_case = (time.perf_counter() - start) / cases
        fresh = _fresh(made)
    yield Line(f"{cases} trivial cases, seconds a case, against a process for each", per_case, fresh, "s", 15, True)
    yield Line(f"{cases} trivial cases, seconds a case, against 0.3 s", per_case, 0.3, "s", 1)


def _fresh(made: Checkout) -> float:
    """Seconds of one case in a Python process of its own that repeats it from its inputs, nothing else running."""
    start = time.perf_counter()
    for case in made.cases[:FRESH_CASES]:
        (folder,) = (path for path in (made.path / "prof" / case).iterdir() if not path.is_symlink())
        command = [sys.executable, "-m", "scripts.profile", str(folder.relative_to(made.path)), "--into", "again"]
        environment = {**os.environ, "PYTHONPATH": str(made.path), "GOLDENPROF_LOCK_DIR": str(made.path / ".locks")}
        subprocess.run(command, cwd=made.path, env=environment, check=True, capture_output=True)
    return (time.perf_counter() - start) / min(FRESH_CASES, len(made.cases))


def against_empty(cases: int, repeats: int = 2, slow: bool = False) -> Iterator[Scale]:
    """Each event of a sweep of `cases` cases; `slow` puts a pause into every step and every start."""
    with tempfile.TemporaryDirectory() as folder:
        ours = project.cached(Path(folder, "ours"), cases)
        empty = project.empty(Path(folder, "empty"), cases)
        alike = project.empty(Path(folder, "alike"), cases, alike=True)
        if slow:
            pause = max(0.1, 10 / cases)
            for module, name, seconds in (
                ("report", "run", pause),
                ("parse_csv", "parse", pause),
                ("cases_file", "read", 5),
            ):
                ours.edit(module, SLOW.replace("NAME", name).replace("SECONDS", str(seconds)))
            ours.seconds("-j8")
        one = f"reports/{ours.cases[cases // 2]}.md"
        for event, module, arguments, forced in (
            ("nothing to do", "", ("-j8",), ()),
            ("`-n` of one target", "", ("-n", one), ()),
            ("reports stale", "report", ("-j8",), ("-R", "report")),
            ("parser and reports stale", "parse_csv", ("-j8",), ("-R", "parse_csv")),
        ):
            taken: list[tuple[float, float, float]] = []
            for k in range(repeats):
                if module:
                    ours.edit(module, f"EDITED_{k} = True")
                mine = ours.seconds(*arguments)
                _check(ours, module, cases)
                theirs = [made.seconds(*arguments, *forced) for made in (empty, alike)]
                taken.append((mine, *theirs))
            yield Scale(cases, event, *(min(side) for side in zip(*taken, strict=True)))


def _check(ours: Checkout, module: str, cases: int) -> None:
    """That the event was what it is called: a bench of the wrong jobs would be worth nothing."""
    done = ours.output.count("\nFinished jobid")
    # Forced reports have the empty side make its summary again; ours is made again when numbers may have changed.
    wanted = {"": 0, "report": cases, "parse_csv": 2 * cases + 2}[module]
    besides = 1 if module else 0  # the target `all`
    if done - besides != wanted or (not module and "Nothing to be done" not in ours.output):
        raise RuntimeError(f"{done} jobs ran where {wanted} were meant; the output ends:\n{ours.output[-2000:]}")


def settings(cases: int, slow: bool = False) -> Iterator[Line]:
    """What an empty job costs with profiles/default and with Snakemake's own settings; `slow`: with those twice."""
    with tempfile.TemporaryDirectory() as folder:
        empty = project.empty(Path(folder, "empty"), cases)
        ours = _seconds_a_job(empty, "none" if slow else "profiles/default")
        theirs = _seconds_a_job(empty, "none")
    yield Line("an empty job with profiles/default, against Snakemake's own settings", ours, theirs, "s", 5, True)


def _seconds_a_job(empty: Checkout, profile: str) -> float:
    empty.profile = profile
    rest = empty.seconds("-j2")
    return (empty.seconds("-j2", "-R", "report") - rest) / len(empty.cases)


def lines(scales: list[Scale]) -> Iterator[Line]:
    """The promises about one number of cases."""
    for scale in scales:
        limit = 1.4 if scale.event.startswith("parser") else 1.3
        what = f"{scale.cases} cases, {scale.event}, against empty rules"
        yield Line(what, scale.ours, scale.empty, "s", limit)
    for scale in scales:
        what = f"{scale.cases} cases, {scale.event}, against empty rules in a Python set like ours"
        yield Line(what, scale.ours, scale.alike, "s", ALIKE_LIMITS[scale.event])
