"""Names of operators, cases, families and tiers: what is allowed, and what a mistyped one may have meant.

Operator and case names become folders and files (`prof/<operator>/<case>/`, `reports/<operator>/<case>.md`,
`reports/<operator>.md`), so that one rule keeps them inside those folders on every file system.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MAX_LENGTH = 100
RULE = f"letters, digits, '_', '.' and '-', the first a letter or digit, at most {MAX_LENGTH} characters"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Files that stand in reports/ beside the operators' own.
_RESERVED = frozenset({"summary", "index", "readme"})
# An operator `x.md` would need the folder reports/x.md where operator `x` has its report.
_SUFFIXES = (".md", ".csv", ".html", ".json")


def problem(name: str) -> str:
    """Why `name` is no name, as a sentence; "" when it is one."""
    if not _NAME.fullmatch(name) or len(name) > MAX_LENGTH:
        return f"{quote(name)} is not a name. Allowed: {RULE}. Rename it."
    return ""


def operator_problem(name: str) -> str:
    """Why `name` cannot be an operator, as a sentence; "" when it can."""
    if bad := problem(name):
        return bad
    if name.casefold() in _RESERVED:
        return f"{quote(name)} is taken: reports/{name}.md is not an operator's report. Rename the operator."
    if name.casefold().endswith(_SUFFIXES):
        return (
            f"{quote(name)} ends like a report file, and reports/{name}/ could collide with one. "
            f"Allowed: no name that ends in {', '.join(_SUFFIXES)}. Rename the operator."
        )
    return ""


def nearest(name: str, candidates: Iterable[str], limit: int = 3) -> list[str]:
    """The candidates most like `name`, best first, letter case ignored; empty when none is near."""
    by_fold: dict[str, list[str]] = {}
    for candidate in candidates:
        by_fold.setdefault(candidate.casefold(), []).append(candidate)
    folded = difflib.get_close_matches(name.casefold(), by_fold, n=limit, cutoff=0.6)
    return [candidate for fold in folded for candidate in by_fold[fold]][:limit]


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """`" Did you mean x or y?"`, with a leading space, or "" when nothing is near."""
    near = nearest(name, candidates)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def quote(value: str, limit: int = 60) -> str:
    """`value` in double quotes on one line, cut to `limit` characters, everything unprintable escaped."""
    shown = value if len(value) <= limit else value[: limit - 1] + "…"
    inner = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return f'"{inner}"'
