"""The house's style, checked with the tools that define it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# The one remark of `snakemake --lint` that does not apply, and why.
NOT_APPLICABLE = {
    "Specify a conda environment or container for each rule.": "every step runs in the environment that the workflow "
    "is installed in: the versions of torch and CANN are part of what is measured, and recorded with it",
}


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


def test_snakemakes_linter_finds_nothing_that_applies() -> None:
    done = tool("snakemake", "--lint")
    words = done.stdout + done.stderr
    assert "Lints for rule" in words, words  # the remark that does not apply is always there
    assert set(re.findall(r"^    \* (.+):$", words, re.MULTILINE)) == set(NOT_APPLICABLE), words
