"""docs/reliability.md lists injected faults; every row names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reliability.md"
TEST = re.compile(r"^(?P<file>[\w/]+\.py)::(?P<name>test_\w+)(?:\[(?P<parameter>.+)\])?$")


def rows() -> list[list[str]]:
    """The cells of every row of the tables of faults."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    return [row for row in cells if row[0] not in ("fault", "---")]


@cache
def known(file: str) -> tuple[set[str], str]:
    """The test functions of a file, and its text."""
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}, text


def test_every_fault_names_a_test_that_exists() -> None:
    for row in rows():
        assert len(row) == 4, row
        found = TEST.match(row[3].strip("`"))
        assert found, row
        names, text = known(found["file"])
        assert found["name"] in names, row
        assert not found["parameter"] or found["parameter"] in text, row


def test_there_are_as_many_faults_as_the_title_says() -> None:
    (count,) = re.findall(r"^## (\d+) faults$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows()) == int(count) >= 60
