"""How many cases a run takes in a given time with one, two and four devices: NPUs of the stand-in runtime.

    python -m benchmarks.scaling [--quick] [--slow]

The devices only wait (tests/ascend/README.md), so that two cores are enough for four of them: a case's time on a device
is made long against its work on the host, as it is for a golden that keeps an NPU busy for some seconds. `--slow` gives
all devices one lock.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import project
from benchmarks.lines import Line

SLOW = "DeviceIdentity.lock = property(lambda self: self.kind)"


@dataclass(frozen=True)
class Size:
    """How many cases, and how many times longer than an NPU the devices take for each of their launches."""

    cases: int
    factor: int


FULL, QUICK = Size(8, 260_000), Size(4, 30_000)
PROMISED = {2: 1.6, 4: 2.8}  # times as many cases as with one device; starting and ending a run is in both


def lines(quick: bool = False, slow: bool = False) -> Iterator[Line]:
    """Seconds a case with several devices against one, each in a whole run; no lines where there is no stand-in."""
    from tests.ascend.build import StandInUnavailable
    from tests.ascend.stand_in import build

    size = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        try:
            machine = build(Path(folder, "cann"))
        except StandInUnavailable as reason:
            print(f"scaling over devices is not measured: {reason}", file=sys.stderr, flush=True)
            return

        def seconds_a_case(devices: int) -> float:
            made = project.checkout(Path(folder, f"devices{devices}"), size.cases)
            made.edit_cases("device: cpu", "device: npu")
            if slow:
                made.edit("devices/identity", SLOW)
            environment = machine.environment(devices=devices, faults=f"slow={size.factor}")
            reports = [f"reports/{case}.md" for case in made.cases]
            return made.seconds("-j8", "--config", "devices=all", "--", *reports, **environment) / size.cases

        one = seconds_a_case(1)
        for devices in (4,) if slow else PROMISED:
            what = f"{size.cases} cases on {devices} stand-in devices, seconds a case, against one device"
            yield Line(what, seconds_a_case(devices), one, "s", PROMISED[devices], at_least=True)


def main() -> int:
    """See the module; 1 when a line is missed, with `--slow` when one is kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few short cases, with which the promises need not hold")
    parser.add_argument("--slow", action="store_true", help="one lock for all devices, which must miss every line")
    options = parser.parse_args()
    kept = []
    for line in lines(options.quick, options.slow):
        print(f"| {' | '.join(line.cells())} |", flush=True)
        kept.append(line.holds)
    return int(any(kept) if options.slow else not all(kept))


if __name__ == "__main__":
    sys.exit(main())
