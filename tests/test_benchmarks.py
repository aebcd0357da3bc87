"""Promises about speed can be missed: slow variants are seen to miss them; `--slow` tries all parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.lines import Line

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("part", ["startup", "parsing", "inputs", "device", "dag"])
def test_a_slow_variant_misses_its_line(part: str) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--slow", "--only", part]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "**no**" in done.stdout
    assert "yes" not in done.stdout


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        (Line("twice as long is too slow", 2.0, 1.0, "s", 1.3), False),
        (Line("a little longer will do", 1.2, 1.0, "s", 1.3), True),
        (Line("ten times faster will do", 1.0, 10.0, "s", 8, at_least=True), True),
        (Line("five times faster is too slow", 1.0, 5.0, "s", 8, at_least=True), False),
    ],
    ids=lambda value: value.what if isinstance(value, Line) else "",
)
def test_a_ratio_is_judged(line: Line, holds: bool) -> None:
    assert line.holds is holds


def test_the_snakemake_process_never_imports_torch() -> None:
    code = (
        "import sys\nfrom scripts import workflow_steps\n"
        "from scripts import locate_output, operator_report, parse_csv, report, summary, sweep_page\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
