"""Where the pages about several cases lie."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path("reports")
SUMMARY = FOLDER / "summary.md"
INDEX = FOLDER / "index.html"
# The rules of the sweep's own files, by their names in the folder.
SWEEP_PAGES = {
    **dict.fromkeys(("summary.md", "summary.csv"), "summary"),
    **dict.fromkeys(("index.html", "summary.json", "junit.xml", "ci.md", "goldenprof.prom"), "page"),
}


def operator_page(operator: str) -> Path:
    """The report of an operator."""
    return FOLDER / f"{operator}.md"


def log_of(rule: str) -> Path:
    """The log of `summary` or `page`."""
    return FOLDER / f".{rule}.log"
