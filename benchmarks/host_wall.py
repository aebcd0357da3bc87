"""Whether our host wall agrees with torch.utils.benchmark, on the same goldens, in the same run, in turns.

    python -m benchmarks.host_wall [--rounds 300] [--threads 1]

Goldens of more than a millisecond must agree within 5 % in the median. `yes`: the whole 95 % interval of the ratio lies
within 5 %. `NO`: the whole interval lies beyond, and the exit code is 1. `too noisy`: the machine was too busy to tell.
Both sides call the golden twice before they time it, and neither flushes the cache: two ways to time a call are
compared, not cold and warm caches. A round is one timed call of each; which comes first alternates. One thread by
default: on a busy machine threads wait for each other.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.utils.benchmark import Timer

from scripts import measure, speedup
from scripts.cases import Settings
from scripts.devices.base import Device
from scripts.devices.identity import resolve
from scripts.devices.opening import open_device
from scripts.speedup import Comparison
from scripts.statistics import spread

LIMIT = 0.05
LONG_ENOUGH_US = 1000
ROUNDS = 300


@dataclass(frozen=True)
class Agreement:
    """One golden, timed both ways."""

    name: str
    ratio: Comparison  # of theirs to ours
    spread: float  # IQR / median of our samples

    @property
    def verdict(self) -> str:
        """Whether both ways agree, as printed."""
        low, high = 1 / self.ratio.high, 1 / self.ratio.low  # of ours over theirs
        if self.ratio.golden_us <= LONG_ENOUGH_US:
            return "below 1 ms"
        if low >= 1 - LIMIT and high <= 1 + LIMIT:
            return "yes"
        return "NO" if low > 1 + LIMIT or high < 1 - LIMIT else "too noisy"


def goldens() -> dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]]:
    """Compute-bound, memory-bound, many small operators, and one that is too short to be held to the limit.

    They take a few milliseconds: on a busy machine such a call often ends before its process is set aside.
    """
    torch.manual_seed(0)
    square, wide = torch.randn(448, 448), torch.randn(1536, 1536)

    def many(x: torch.Tensor) -> torch.Tensor:
        for _ in range(300):
            x = x * 1.0001 + 0.1
        return x

    return {
        "matmul 448": (torch.mm, (square, square)),
        "softmax 1536 x 1536": (lambda x: torch.softmax(x, -1), (wide,)),
        "exp 1536 x 1536": (torch.exp, (wide,)),
        "600 small operators": (many, (torch.randn(64),)),
        "one small operator": (torch.exp, (torch.randn(64),)),
    }


def measure_both(
    device: Device, name: str, golden: Callable[..., torch.Tensor], args: tuple[torch.Tensor, ...], rounds: int
) -> Agreement:
    """`rounds` calls each way, in turns."""
    noise = measure.noise_of(Settings(cache="warm"), device)
    ours = measure.prepare(device, golden, args, {}, [], noise)
    timer = Timer("golden(*args)", globals={"golden": golden, "args": ours.args}, num_threads=torch.get_num_threads())
    theirs: list[float] = []

    def own(k: int) -> None:
        ours.warm_up(2)  # as Timer.timeit does before it times
        ours.iterate(k)

    def other(_: int) -> None:
        theirs.append(timer.timeit(1).median * 1e6)

    with torch.no_grad():
        ours.warm_up(3)
        for k in range(rounds):
            for turn in (own, other) if k % 2 == 0 else (other, own):
                turn(k)
    samples = ours.taken_us()
    return Agreement(name, speedup.judge(theirs, samples, paired=True), spread(samples).relative_iqr)


def table(found: Sequence[Agreement], rounds: int, seconds: float) -> str:
    """The agreement as Markdown."""
    load = os.getloadavg()[0]
    lines = [
        f"Host wall against torch.utils.benchmark: {rounds} rounds in turns, medians, {resolve('cpu').model}, "
        f"{torch.get_num_threads()} thread(s), torch {torch.__version__}, load {load:.1f}, {seconds:.0f} s.",
        "",
        "| golden | ours (us) | torch's (us) | difference | 95 % interval | our IQR / median | within 5 % |",
        "|:-------|----------:|-------------:|-----------:|:-------------:|-----------------:|:----------:|",
    ]
    for one in found:
        ratio = one.ratio
        low, high = 100 / ratio.high - 100, 100 / ratio.low - 100
        lines.append(
            f"| {one.name} | {ratio.candidate_us:.1f} | {ratio.golden_us:.1f} | {100 / ratio.speedup - 100:+.1f} % | "
            f"{low:+.1f} … {high:+.1f} % | {100 * one.spread:.1f} % | {one.verdict} |"
        )
    return "\n".join(lines) + "\n"


def run(rounds: int, threads: int) -> tuple[list[Agreement], float]:
    """All goldens, and the seconds it took."""
    started = time.monotonic()
    device = open_device(resolve("cpu"))
    torch.set_num_threads(threads)
    found = [measure_both(device, name, golden, args, rounds) for name, (golden, args) in goldens().items()]
    return found, time.monotonic() - started


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when a golden of more than a millisecond disagrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    found, seconds = run(options.rounds, options.threads)
    print(table(found, options.rounds, seconds), end="")
    return int(any(one.verdict == "NO" for one in found))


if __name__ == "__main__":
    sys.exit(main())
