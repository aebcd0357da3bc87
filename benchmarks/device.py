"""How a device's time is used: the share of its lock in which it measures, and whether -j8 disturbs a measurement."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks import project
from benchmarks.lines import Line
from scripts import artifacts
from scripts.artifacts import PerfRecord
from scripts.devices.identity import cpu_count

GOLDEN = """
import torch


def product_golden(a, b):
    return a @ b
"""


def locked_share(size: int, slow: bool = False) -> Iterator[Line]:
    """Of the time that the CPU is locked for one case, the part in which its golden and noise run; `slow`: sleeps."""
    from scripts import locks, make_inputs, measure, profile
    from scripts.cases import Argument, Case, Settings, TensorSpec
    from scripts.devices import identity
    from scripts.key import case_digest, key

    spent = {"locked": 0.0, "measuring": 0.0}
    hold_one = locks.hold_one

    @contextmanager
    def timed_hold(*arguments: Any, **options: Any) -> Iterator[str]:
        with hold_one(*arguments, **options) as name:
            start = time.perf_counter()
            yield name
            if slow:
                time.sleep(spent["measuring"])
            spent["locked"] += time.perf_counter() - start

    with tempfile.TemporaryDirectory() as folder, _replaced(locks, "hold_one", timed_hold):
        golden = Path(folder, "product_golden.py")
        golden.write_text(GOLDEN)
        spec = TensorSpec((size, size), "float32", "randn")
        arguments = (Argument("a", (spec,)), Argument("b", (spec,)))
        case = Case(
            "product_golden", "bench", str(golden), None, "A", arguments, Settings(device="cpu", keep_inputs=True)
        )
        roots = (Path(folder),)
        name = key(case_digest(case, golden, roots), identity.resolve("cpu"))
        make_inputs.run(case, name, Path(folder, name), roots)
        profile.run(Path(folder, name), roots, lambda phase: None)  # the profiler's first start is the warm parent's
        spent["locked"] = 0.0
        with _timed(measure.Measurement, ("check", "warm_up", "iterate"), spent):
            profile.run(Path(folder, name), roots, lambda phase: None)
    if not spent["locked"]:
        raise RuntimeError("the lock that profile.run takes is not the one that is timed")
    yield Line(
        "time that the CPU is locked, against the time in which it measures",
        spent["locked"],
        spent["measuring"],
        "s",
        1.25,
    )


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def _timed(owner: Any, names: tuple[str, ...], spent: dict[str, float]) -> Iterator[None]:
    originals = {name: getattr(owner, name) for name in names}

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return work(*arguments)
            finally:
                spent["measuring"] += time.perf_counter() - start

        return run

    for name, work in originals.items():
        setattr(owner, name, timed(work))
    try:
        yield
    finally:
        for name, work in originals.items():
            setattr(owner, name, work)


def noise(cases: int, rounds: int = 2, slow: bool = False) -> Iterator[Line]:
    """The same cases with -j8 and with -j1: spread (IQR over median) and E2E, the medians over the cases of all rounds.

    A product of matrices: what only moves memory has two levels on a CPU, whether its result's pages are new or not.
    `slow`: something disturbs the runs with -j8.
    """
    spreads: dict[str, list[float]] = {"-j1": [], "-j8": []}
    levels: dict[str, list[float]] = {"-j1": [], "-j8": []}
    for jobs in ("-j1", "-j8", "-j8", "-j1") * rounds:
        with tempfile.TemporaryDirectory() as folder, _disturbed() if slow and jobs == "-j8" else nullcontext():
            made = project.checkout(Path(folder, "ours"), cases)
            made.edit_cases("iterations: 3", "iterations: 15")
            made.edit_cases("[64, 64]", "[1024, 1024]")
            made.edit_golden("x * 2 + 1", "x @ x")
            made.seconds(jobs, *(f"reports/{case}.md" for case in made.cases))
            perfs = [artifacts.read(path, PerfRecord) for path in made.path.glob("prof/*/*/*-cpu-*/perf.json")]
            spreads[jobs] += [perf.device_total.relative_iqr for perf in perfs]
            levels[jobs] += [float(perf.e2e_us) for perf in perfs]
    for what, found, unit, limit in (("spread", spreads, "of the median", 1.5), ("E2E", levels, "us", 1.1)):
        ours, reference = statistics.median(found["-j8"]), statistics.median(found["-j1"])
        yield Line(f"{what} of {cases} cases with -j8, against -j1", ours, reference, unit, limit)


@contextmanager
def _disturbed() -> Iterator[None]:
    """Every core has other work, on and off."""
    code = "import time\nwhile True:\n end = time.time() + 0.02\n while time.time() < end: pass\n time.sleep(0.02)"
    others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2 * cpu_count())]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()
