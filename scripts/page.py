"""reports/index.html: one file that shows a run, its verdicts and its history, offline and without a server.

Everything is inside the file: data as JSON, style and script as they stand in scripts/templates, and a content security
policy that names these two by hash and allows nothing else, so that no name from a capture can become code and nothing
can be loaded.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scripts import artifacts, page_data
from scripts.accepted import AcceptedChange
from scripts.formatting import TEMPLATES
from scripts.history import History, HistoryRow
from scripts.history_rows import RunFacts
from scripts.page_data import Past, Shown

NIGHTS = 90  # drawn in a history line
COMPARED = 10  # latest runs that can be put side by side: each costs the page 0.1 MB per 1,000 cases
TITLE = "Golden performance"
HEAVY = ("iteration_us", "ops", "warnings", "inputs", "dtypes", "command", "log", "folder", "profiler_dir", "reason")


def write(target: Path, shown: Shown, past: Past, tail: str = "") -> None:
    """Write the page, then `tail`, to `target`, from where its links lead to reports, logs and captures."""
    artifacts.write_bytes(target, (render(shown, past, target.parent) + tail).encode("utf-8", "replace"))


def render(shown: Shown, past: Past, folder: Path) -> str:
    """The page as HTML that will lie in `folder`."""
    import jinja2
    from markupsafe import Markup

    style, script = (_template(f"page.{kind}") for kind in ("css", "js"))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_template("page.html.j2")).render(
        title=TITLE,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=Markup(page_data.encode(page_data.build(shown, past, folder))),
    )


def past_of(
    history: History,
    run: RunFacts,
    judged: bool,
    accepted: Sequence[AcceptedChange] = (),
    renamed: Mapping[str, str] | None = None,
) -> Past:
    """The nights up to now for a page about `run`; a judged run is the last of them.

    `renamed` says what former ids of cases are called now: a rename keeps its history.
    """
    from scripts import series

    runs, renamed = history.runs(NIGHTS), renamed or {}
    if not runs:
        return Past(problems=history.problems)

    def rows(which: list[str], without: Sequence[str]) -> list[HistoryRow]:
        found = history.rows(which, without)
        return [replace(row, case_id=renamed[row.case_id]) if row.case_id in renamed else row for row in found]

    found = series.of(rows(runs, HEAVY), accepted)
    last = run.run_id if judged else runs[-1]
    compared = rows(runs[-COMPARED:], ("iteration_us", "warnings", "inputs", "command"))
    return Past(series.current(found, last), compared, history.problems)


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
