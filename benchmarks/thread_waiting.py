"""What it costs that an operator's threads sleep instead of spin while they wait: alone, and beside other work.

    python -m benchmarks.thread_waiting

Prints the median time of one linear layer with both ways of waiting, on the idle machine and beside two busy processes
a core, and the ratio of the two in each place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

CALL = """
import statistics, time, torch
layer, x = torch.nn.Linear(256, 256), torch.randn(512, 256)
times = []
with torch.no_grad():
    for _ in range(200):
        start = time.perf_counter()
        torch.nn.functional.gelu(layer(x))
        times.append(time.perf_counter() - start)
print(statistics.median(times) * 1e6)
"""


def median_us(policy: str) -> float:
    """Median time of one call in a new process whose threads wait as `policy` says."""
    environment = {**os.environ, "OMP_WAIT_POLICY": policy}
    if not policy:
        del environment["OMP_WAIT_POLICY"]
    return float(
        subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=True).stdout
    )


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Processes that do nothing but keep the machine busy."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    """Print the table."""
    print("| machine | spinning (us) | sleeping (us) | spinning / sleeping |\n| --- | --- | --- | --- |")
    for place, processes in (("idle", 0), ("two busy processes a core", 2 * len(os.sched_getaffinity(0)))):
        with busy(processes):
            spinning, sleeping = median_us(""), median_us("PASSIVE")
        print(f"| {place} | {spinning:.0f} | {sleeping:.0f} | {spinning / sleeping:.2f} |")


if __name__ == "__main__":
    main()
