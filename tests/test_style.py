"""The house's style, checked with the tools that define it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize(
    "command",
    [
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "."),
        ("snakefmt", "--check", "Snakefile", "rules"),
        ("mypy",),
    ],
    ids=" ".join,
)
def test_the_tools_find_nothing(command: tuple[str, ...]) -> None:
    done = tool(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_snakemakes_linter_finds_nothing() -> None:
    done = tool("snakemake", "--lint")
    assert done.returncode == 0, done.stdout + done.stderr
