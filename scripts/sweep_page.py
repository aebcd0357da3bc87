"""reports/index.html and its machine-readable companions for a plain sweep: cached results, without verdicts."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from scripts import closing, exports, history, history_rows, night_lock, page, summary
from scripts.history_rows import RunFacts
from scripts.page_data import Shown
from scripts.plan import PlannedCase
from scripts.report_files import FOLDER, INDEX, SUMMARY

NOW = "cached-results"  # stands for a run's id where the page names runs


def write(planned: Sequence[PlannedCase], tail: str = "") -> str:
    """Write the exports of these cases, then the page with `tail`; returns the closing table for the terminal."""
    now = datetime.now(UTC).replace(microsecond=0)
    project = night_lock.repository(Path.cwd())
    run = RunFacts(NOW, now, platform.node(), project.commit, project.dirty)
    renamed = {alias: one.case.id for one in planned for alias in one.case.aliases}
    entries = summary.entries(planned)
    found = history_rows.rows(planned, run, known=[entry.outcome for entry in entries])
    past = page.past_of(history.History(), run, found, judged=False, renamed=renamed)
    reports = {entry.case: entry.report for entry in entries if entry.report.exists()}
    shown = Shown(run, found, judged=False, reports=reports, config=planned[0].config)
    rows = [summary.row_of(entry) for entry in entries]
    exports.write(FOLDER, rows, {}, "", now)
    page.write(INDEX, shown, past, tail)  # last: its stamp answers for all of them
    return closing.text(rows, {}, f"Page: {INDEX}, summary: {SUMMARY}")
