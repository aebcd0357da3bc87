"""reports/index.html: one file that shows a run, its verdicts and its history, offline and without a server.

Everything is inside the file: data as JSON, style and script as they stand in scripts/templates, and a content security
policy that names these two by hash and allows nothing else, so that no name from a capture can become code and nothing
can be loaded.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scripts import artifacts, page_data
from scripts.accepted import FILE, AcceptedChange
from scripts.formatting import TEMPLATES, plural
from scripts.history import History, HistoryRow
from scripts.history_rows import RunFacts
from scripts.names import did_you_mean, quote
from scripts.page_data import Past, Shown

NIGHTS = 90  # drawn in a history line
COMPARED = 10  # latest runs, the shown one included, that can be put side by side: 0.1 MB each per 1,000 cases
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
    rows: Sequence[HistoryRow],
    judged: bool,
    accepted: Sequence[AcceptedChange] = (),
    renamed: Mapping[str, str] | None = None,
) -> Past:
    """The nights before `run`, as far as they measured on its devices; with its own `rows` after them, if it is judged.

    A night is judged by those that began before it, so that it stays what it was when it is gone on with late, or when
    a clock was set back. `renamed` says what former ids of cases are called now: a rename keeps its history.
    """
    from scripts import series

    renamed = renamed or {}
    runs, problems = history.runs(sorted({row.device_model for row in rows} - {""})), list(history.problems)
    if judged and run.run_id in runs:
        at = runs.index(run.run_id)
        if later := runs[at + 1 :]:
            problems.append(
                f"{plural(len(later), 'recorded night')} began after this one, the latest is {later[-1]}. This one is "
                "judged by those before it. If it is the latest in truth, a clock was set back."
            )
        runs = runs[:at]

    def before(latest: int, without: Sequence[str]) -> list[HistoryRow]:
        found = history.rows(runs[-latest:], without)
        return [replace(row, case_id=renamed.get(row.case_id, row.case_id)) for row in found]

    found = series.of([*before(NIGHTS, HEAVY), *(rows if judged else ())], accepted, renamed)
    names = {
        name for one in found for name in (one.case_id, *(old for old, now in renamed.items() if now == one.case_id))
    }
    problems += [
        f"{FILE}: {quote(change.case)} is no case of these nights, so nothing is accepted by it."
        f"{did_you_mean(change.case, sorted(names))}"
        for change in accepted
        if not fnmatch.filter(names, change.case)
    ]
    compared = before(COMPARED - 1, ("iteration_us", "warnings", "inputs", "command"))
    return Past(series.of_rows(found, rows), compared, problems)


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
