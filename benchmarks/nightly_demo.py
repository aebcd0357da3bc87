"""Ten nights of small CPU goldens, really measured, one of which becomes 20 % slower after the eighth.

    python benchmarks/nightly_demo.py [--into DIR] [--nights 10]

Every night is a whole `goldenprof nightly` in a project of its own. The demonstration succeeds (exit code 0) when the
slowed golden, and nothing else, is called a regression from the ninth night on, by the page's data and the exit codes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import artifacts  # noqa: E402
from scripts.night import Outcome, VerdictsRecord  # noqa: E402

SLOW_FROM = 9
SLOWED = "gelu_chain_golden"
REPEATS, SLOWER = 20, 24  # calls per golden: 20 % more work

# Too few elements for a second thread, all in the core's own cache, on one core: there a CPU's times vary least.
FUNCTIONS = {
    "gelu_chain_golden": "torch.nn.functional.gelu(x)",
    "sin_chain_golden": "torch.sin(x)",
    "tanh_chain_golden": "torch.tanh(x)",
    "erf_chain_golden": "torch.erf(x)",
}
CASES = """defaults: {device: "cpu:LAST", warmup: 5, iterations: 400, noise_mib: 1, cache: warm}
operators:
"""
OPERATOR = """  {name}:
    golden: golden/{name}.py
    family: chains
    mode: A
    cases:
      f32: {{inputs: {{x: {{shape: [64, 256], dtype: float32}}}}}}
"""
GOLDEN = '''"""{repeats} calls in a row, each on the result of the one before."""

import torch


def {name}(x: torch.Tensor) -> torch.Tensor:
    """x: (rows, columns) float32 → the same shape and dtype."""
    for _ in range({repeats}):
        x = {call}
    return x
'''


@dataclass(frozen=True)
class Night:
    """One night as it ended."""

    number: int
    exit_code: int
    record: VerdictsRecord
    seconds: float
    load: float  # of the host, 1-minute average

    @property
    def regressions(self) -> list[str]:
        """The cases that it calls slower."""
        return [case.case for case in self.record.cases if case.verdict == "regression"]

    def line(self) -> str:
        """One line about it."""
        words = ", ".join(f"{case.case.partition('/')[0]} {case.verdict}" for case in self.record.cases)
        end = f"exit code {self.exit_code} ({self.record.outcome}), {self.seconds:.0f} s, load {self.load:.1f}"
        return f"night {self.number:2}: {end}: {words}"


def main() -> int:
    """Run the nights and say whether they found what they should."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / "build/nightly-demo", help="default: %(default)s")
    parser.add_argument("--nights", type=int, default=10, help="default: %(default)s")
    options = parser.parse_args()
    _project(options.into)
    nights = []
    for number in range(1, options.nights + 1):
        _golden(options.into, SLOWED, SLOWER if number >= SLOW_FROM else REPEATS)
        nights.append(_night(options.into, number))
        print(nights[-1].line(), flush=True)
    print(f"Page: {options.into / 'reports/index.html'}")
    print(f"A against A, nights 1 to {SLOW_FROM - 1}: {_restlessness(nights)}.")
    return _judge(nights)


def _project(folder: Path) -> None:
    for part in ("config", "golden", "history", "nights", "reports", "prof", ".snakemake"):
        shutil.rmtree(folder / part, ignore_errors=True)
    (folder / "config").mkdir(parents=True)
    (folder / "golden").mkdir()
    (folder / "config/cases.yaml").write_text(
        CASES.replace("LAST", str(max(os.sched_getaffinity(0))))
        + "".join(OPERATOR.format(name=name) for name in FUNCTIONS)
    )
    for name in FUNCTIONS:
        _golden(folder, name, REPEATS)


def _golden(folder: Path, name: str, repeats: int) -> None:
    (folder / f"golden/{name}.py").write_text(GOLDEN.format(name=name, repeats=repeats, call=FUNCTIONS[name]))


def _night(folder: Path, number: int) -> Night:
    begun, run = time.monotonic(), f"night-{number:02}"
    command = [sys.executable, "-m", "scripts.cli", "nightly", "--config", f"run={run}", "--"]
    workflow = ["-s", str(ROOT / "Snakefile"), "--workflow-profile", str(ROOT / "profiles/default")]
    done = subprocess.run(
        [*command, *workflow],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    path = folder / "nights" / run / "verdicts.json"
    if not path.exists():
        sys.exit(f"Night {number} could not be run:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return Night(
        number, done.returncode, artifacts.read(path, VerdictsRecord), time.monotonic() - begun, os.getloadavg()[0]
    )


def _restlessness(nights: list[Night]) -> str:
    """How far each golden strays from its own median while nothing changes: what the machine itself does."""
    found = []
    for name in FUNCTIONS:
        times = [case.e2e_us for night in nights[: SLOW_FROM - 1] for case in night.record.cases if name in case.case]
        known = [time_us for time_us in times if time_us]
        middle = median(known) if known else 0.0
        stray = max((abs(time_us / middle - 1) for time_us in known), default=0.0)
        found.append(f"{name} {middle:.1f} us, at most {100 * stray:.1f} % off")
    return "; ".join(found)


def _judge(nights: list[Night]) -> int:
    wrong = []
    for night in nights:
        expected = [f"{SLOWED}/f32"] if night.number >= SLOW_FROM else []
        code = Outcome.REGRESSIONS.exit_code if expected else Outcome.OK.exit_code
        if night.regressions != expected or night.exit_code != code:
            wrong.append(
                f"night {night.number}: expected {expected or 'no regression'} and exit code {code}, "
                f"found {night.regressions or 'none'} and {night.exit_code}"
            )
    cores = len(os.sched_getaffinity(0))
    if wrong and max(night.load for night in nights) > cores:
        wrong.append(f"The host had more work than its {cores} cores: a change of 20 % needs a quieter one to be seen.")
    print("\n".join(wrong) if wrong else f"Found {SLOWED} from night {SLOW_FROM} on, and nothing else.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
