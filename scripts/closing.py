"""What the terminal shows when a sweep is over: counts, every failure with its reason, findings, and the slowest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

from scripts.exports import Judgements
from scripts.formatting import one_line, plural, us
from scripts.status import Status
from scripts.summary import SummaryRow
from scripts.verdicts import Verdict

MOST_LISTED = 20  # of each kind: a screenful
SLOWEST = 3
WIDTH = 110
NEWS = (Verdict.REGRESSION, Verdict.SUSPICIOUS, Verdict.CHANGED_IDENTITY, Verdict.IMPROVEMENT)


def text(rows: Sequence[SummaryRow], judged: Judgements, where: str) -> str:
    """The table; `where` says what to open for more."""
    good = [row for row in rows if row.status == Status.OK]
    failed = [row for row in rows if row.status not in (Status.OK, Status.SKIPPED)]
    news = [row for verdict in NEWS for row in good if row.id in judged and judged[row.id].verdict is verdict]
    lines = ["", f"{plural(len(rows), 'case')}: {_counted(row.status for row in rows)}"]
    if judged:
        lines.append(f"Verdicts: {_counted(judgement.verdict for judgement in judged.values())}")
    lines += _listed([(row.id, row.status, row.reason) for row in failed])
    lines += _listed([(row.id, judged[row.id].verdict, judged[row.id].detail) for row in news])
    warned = sum(bool(row.warnings) for row in good)
    if warned:
        lines.append(
            f"With warnings: {warned} of {len(good)} results; read them in the reports before using the numbers."
        )
    slowest = sorted(good, key=lambda row: -Decimal(row.e2e_us))[:SLOWEST]
    if slowest:
        lines.append("Slowest: " + ", ".join(f"{row.id} {us(Decimal(row.e2e_us), 1)}{row.caution}" for row in slowest))
    return "\n".join([*lines, where])


def _listed(found: Sequence[tuple[str, str, str]]) -> list[str]:
    if not found:
        return []
    width = max(len(case) for case, _, _ in found[:MOST_LISTED])
    lines = [f"  {case:<{width}}  {word}: {one_line(why)}" for case, word, why in found[:MOST_LISTED]]
    more = [f"  … and {len(found) - MOST_LISTED} more"] if len(found) > MOST_LISTED else []
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 2]} …" for line in lines] + more


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(map(str, words)).most_common())
