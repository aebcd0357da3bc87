"""Which step of a case has to run again, and why: decided by content, with no time stamp and no metadata of Snakemake.

The key in a folder's name answers for what is drawn and measured: there, freshness is existence. What is made from it
carries a stamp, the digest of the code that made it and of the files it was made from:

    output.json, perf.json    in the field `stamp`
    reports/**.md             in a comment on the last line

A copied or cloned folder therefore stays fresh, an edit that is taken back costs at most the reports, and a report of
another key, or of numbers that have changed since, is never taken for the present one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from scripts import changes, failures, peaks
from scripts.plan import PlannedCase, code_digest
from scripts.report_files import companions

STEPS = ("make_inputs", "profile", "locate_output", "parse_csv", "report")  # in the order in which they follow
PAGES = ("report", "operator_report", "summary", "page")  # what is made with templates
HISTORY = Path("history")
# What is there when a step of a case has ended.
OUTPUTS = {
    "make_inputs": "inputs.json",
    "profile": "profile.json",
    "locate_output": "output.json",
    "parse_csv": "perf.json",
}
# The modules whose code a step depends on, together with all that they import.
MODULES = {
    "locate_output": ("locate_output",),
    "parse_csv": ("locate_output", "parse_csv"),
    "report": ("report",),
    "operator_report": ("operator_report",),
    "summary": ("summary",),
    "page": ("sweep_page",),
}
OTHER_CODE = "the code that makes it has changed"
OTHER_PAGE_CODE = "the code or a template that makes it has changed"
OTHER_SOURCES = "it was made from another capture than the present one"
OTHER_PAGE_SOURCES = "it was made from other results or peaks than the present ones"
_PAGE_STAMP = re.compile(rb"<!-- made by code ([0-9a-f]{16}) from ([0-9a-f]{16}) -->\n\Z")
_TAIL = 128  # bytes of a page that hold its stamp


@dataclass(frozen=True)
class Stamp:
    """What an artifact was made by and from."""

    code: str  # digest of the step's code
    content: str  # digest of the files it read

    def __str__(self) -> str:
        return f"{self.code}-{self.content}"


@dataclass(frozen=True)
class Verdict:
    """The first step that has to run and why; `step` is empty when everything stands."""

    step: str = ""
    why: str = ""


class _Stamped(msgspec.Struct):
    """The part of output.json and perf.json that says what they were made from."""

    stamp: str = ""


def of_case(planned: PlannedCase) -> Verdict:
    """What has to run before the case's perf.json is right."""
    if not os.path.exists(f"{planned.place}/profile.json"):
        return Verdict("profile", changes.why(planned))
    for step in ("locate_output", "parse_csv"):
        if why := _why_stale(_json_stamp(f"{planned.place}/{OUTPUTS[step]}"), stamp(step, planned)):
            return Verdict(step, why)
    return Verdict()


def of_page(page: Path, rule: str, sources: Iterable[Path | str], extra: str = "") -> str:
    """Why a page has to be made again by `rule` from `sources`, which are right; "" when it stands."""
    if missing := [path for path in companions(page) if not path.exists()]:
        return "not made yet" if page in missing else f"{missing[0]} is missing"
    why = _why_stale(_page_stamp(page), page_stamp(rule, sources, extra))
    return {OTHER_CODE: OTHER_PAGE_CODE, OTHER_SOURCES: OTHER_PAGE_SOURCES}.get(why, why)


def stamp(step: str, planned: PlannedCase) -> Stamp:
    """What `step` (locate_output or parse_csv) would write now into its record."""
    names = ("profile.json",) if step == "locate_output" else ("profile.json", "output.json")
    return Stamp(code(step), _content(f"{planned.place}/{name}" for name in names))


def page_stamp(rule: str, sources: Iterable[Path | str], extra: str = "") -> Stamp:
    """What a page made by `rule` from `sources` would carry now; `extra` is what else it shows."""
    return Stamp(code(rule), _content(sources, extra))


def sweep_sources(cases: Sequence[PlannedCase], all_reported: bool = False) -> tuple[list[Path], str]:
    """The files that the summary and the page are made from, and what else they show.

    That is what the cases file says, which nights there are, and which reports, to which they lead: all of them, with
    `all_reported`, where those that are missing are about to be made.
    """
    cases = _in_one_order(cases)
    files = [path for planned in cases for path in (planned.folder / "perf.json", failures.path(planned))]
    files += _peaks_of(cases)
    shown = [(one.case.id, one.case.family, one.case.tier, one.case.aliases) for one in cases]
    reported = [all_reported or one.report.exists() for one in cases]
    return files, repr((shown, reported, sorted(path.as_posix() for path in HISTORY.rglob("*"))))


def with_peaks(cases: Sequence[PlannedCase]) -> list[Path | str]:
    """The files that a report of `cases` is made from: perf.json, and its device's peaks where there are any."""
    return [*(f"{planned.place}/perf.json" for planned in _in_one_order(cases)), *_peaks_of(cases)]


def _in_one_order(cases: Sequence[PlannedCase]) -> list[PlannedCase]:
    """By name: cases.yaml may be put in another order, and nothing is made again for it."""
    return sorted(cases, key=lambda planned: planned.case.id)


def _peaks_of(cases: Sequence[PlannedCase]) -> list[Path]:
    one_of_each = {planned.key.rpartition("-")[2]: planned.key for planned in cases}
    return sorted(path for key in one_of_each.values() if (path := peaks.path_of(key)).exists())


def tail(made: Stamp) -> str:
    """The last line of a page, its stamp; written with the page at once, so that none is there without it."""
    return f"\n<!-- made by code {made.code} from {made.content} -->\n"


def code(step: str) -> str:
    """Digest of the code of a step that runs without a device."""
    return code_digest(*MODULES[step], templates=step in PAGES)


def read_code() -> None:
    """Take the digests of all steps' code now, for all stamps of this process: it may be edited while that runs."""
    for step in MODULES:
        code(step)


def before(step: str) -> tuple[str, ...]:
    """The steps that `step` follows; all of a case for a page of several cases."""
    return STEPS[: STEPS.index(step)] if step in STEPS else STEPS[:-1]


def _why_stale(found: str | None, wanted: Stamp) -> str:
    if found is None:
        return "not made yet"
    if found == str(wanted):
        return ""
    _, _, made_from = found.partition("-")
    if not made_from:
        return "it does not say what it was made from"
    if made_from != wanted.content:
        return OTHER_SOURCES
    return OTHER_CODE


def _json_stamp(path: str) -> str | None:
    """The stamp of a record, "" when it has none or cannot be read, None when there is no file."""
    try:
        return msgspec.json.decode(_bytes(path), type=_Stamped).stamp
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError):
        return ""


def _page_stamp(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            match = _PAGE_STAMP.search(file.read())
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    return f"{match[1].decode()}-{match[2].decode()}" if match else ""


def _content(files: Iterable[Path | str], extra: str = "") -> str:
    total = hashlib.sha256(extra.encode())
    for file in files:
        try:
            status = os.stat(file)
            total.update(_file_digest(os.fspath(file), (status.st_mtime_ns, status.st_size, status.st_ino)))
        except OSError:
            total.update(b"absent")
    return total.hexdigest()[:16]


@lru_cache(maxsize=100_000)
def _file_digest(file: str, version: tuple[int, int, int]) -> bytes:
    """Asked several times for each file; `version` tells within this process whether it was written anew."""
    return hashlib.sha256(_bytes(file)).digest()


def _bytes(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read()
