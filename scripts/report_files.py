"""Where the pages about several cases lie, and what lies beside them."""

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


def companions(page: Path) -> list[Path]:
    """What is written together with a page, itself included."""
    if rule := SWEEP_PAGES.get(page.name) if page.parent == FOLDER else None:
        return [FOLDER / name for name, other in SWEEP_PAGES.items() if other == rule]
    return [page, roofline(page)] if page.parent == FOLDER else [page]


def roofline(operator_page: Path) -> Path:
    """The picture beside an operator's report."""
    return operator_page.with_name(f"{operator_page.stem}.roofline.svg")


def log_of(rule: str) -> Path:
    """The log of `summary` or `page`."""
    return FOLDER / f".{rule}.log"
