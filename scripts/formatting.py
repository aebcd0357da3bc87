"""How numbers and text are written in reports: exact digits, safe Markdown.

Whatever a template prints is escaped unless it is `Markdown`, so that nothing from a capture, a configuration or an
exception can break a table or reach a browser as HTML.
"""

from __future__ import annotations

import functools
import re
import unicodedata
import urllib.parse
from collections.abc import Iterable, Sequence
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template

TEMPLATES = Path(__file__).parent / "templates"
HARMLESS = re.compile(r"[A-Za-z][A-Za-z0-9.,:]*|[0-9.]+(us| %)?")  # most cells: a word or a number
EDGE = r"(?<![^\W_])_|_(?![^\W_])"  # an underscore at a word's edge: only there can it mean emphasis
_CODE = "(?<!`)`([^`]+)`(?!`)"
_STAND_IN = "\ue000"  # for a code span, while what is around it is escaped
MOST_DECIMALS = 6  # a picosecond: no profiler's clock is finer


class Markdown(str):
    """Text that is Markdown already and is printed as it is."""


# ---------------------------------------------------------------- numbers


def decimals_of(values: Iterable[Decimal], least: int = 1, most: int = MOST_DECIMALS) -> int:
    """How many decimals write every one of `values` exactly, within `least` and `most`."""
    return min(most, max([least, *(-_exponent(value) for value in values)]))


def us(value: Decimal, decimals: int | None = None) -> str:
    """`value` in microseconds as the report writes it: "245.3us"; exact to six decimals when `decimals` is None."""
    return f"{value:.{decimals_of([value]) if decimals is None else decimals}f}us"


def column_us(values: Sequence[Decimal], decimals: int) -> list[str]:
    """One column of durations whose printed numbers add up to their rounded sum, digit by digit.

    Where `decimals` are enough to be exact nothing is changed; else what rounding loses goes to the values that lost
    most, so that each is off by less than one unit of its last digit.
    """
    unit = Decimal(1).scaleb(-decimals)
    floors = [value.quantize(unit, ROUND_FLOOR) for value in values]
    missing = int((sum(values, Decimal(0)).quantize(unit) - sum(floors, Decimal(0))) / unit)
    by_loss = sorted(range(len(values)), key=lambda i: floors[i] - values[i])
    for i in by_loss[:missing]:
        floors[i] += unit
    return [us(value, decimals) for value in floors]


def percent(share: float, decimals: int = 1) -> str:
    """A share of 1 as "12.3 %"."""
    return f"{100 * share:.{decimals}f} %"


def plural(count: int, noun: str) -> str:
    """`count` and its noun: "1 row", "3 rows"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _exponent(value: Decimal) -> int:
    if not value.is_finite():
        raise ValueError(f"{value} is no duration: a finite number of microseconds is needed.")
    return int(value.normalize().as_tuple().exponent)


# ---------------------------------------------------------------- text


def one_line(text: object) -> str:
    """`text` on one line, with whatever a terminal or a renderer would obey written out instead of sent."""
    return _visible(re.sub(r"\s+", " ", str(text)).strip())


def plain(text: str) -> str:
    """`text` with its lines kept, and nothing in it that a terminal would obey."""
    return "\n".join(_visible(line.expandtabs()) for line in text.splitlines())


def md(text: object) -> Markdown:
    """Escape `text` for running Markdown text and table cells (GitHub's flavour)."""
    return text if isinstance(text, Markdown) else _escaped(str(text))


@functools.lru_cache(maxsize=4096)  # most of a report is the same in the next one
def _escaped(text: str) -> Markdown:
    if HARMLESS.fullmatch(text):
        return Markdown(text)
    escaped = re.sub(r"&(?=#?\w+;)", "&amp;", one_line(text).replace("\\", "\\\\")).replace("<", "&lt;")
    escaped = re.sub(r"([`|*~$])", r"\\\1", escaped)
    escaped = re.sub(r"\](?=[(\[:])", r"\\]", escaped)  # only then would it be a link
    if len(re.findall(EDGE, escaped)) > 1:  # one alone opens or closes nothing, and op types are full of them
        escaped = re.sub(EDGE, r"\\_", escaped)
    escaped = re.sub(r"^(?=>|--|[-+](\s|$)|#+(\s|$))", r"\\", escaped)  # a quote, rule, list or heading …
    return Markdown(re.sub(r"^(\d+)(?=[.)](\s|$))", r"\1\\", escaped))  # … or numbered list, if it began a line


def prose(text: object) -> Markdown:
    """A sentence of this program as Markdown: what stands in it between backticks is code. Not for tables' cells."""
    line = one_line(text)
    if isinstance(text, Markdown) or _STAND_IN in line:
        return md(text)
    spans = iter(re.findall(_CODE, line))
    escaped = md(re.sub(_CODE, _STAND_IN, line))
    return Markdown(re.sub(_STAND_IN, lambda _: code(next(spans)), escaped))


def code(text: object) -> Markdown:
    """`text` as a code span, outside of tables: inside one, a pipe would end the cell."""
    line = one_line(text)
    if not line:
        return Markdown("")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if "`" in (line[0], line[-1]) else ""
    return Markdown(fence + pad + line + pad + fence)


def code_block(text: str, language: str = "") -> Markdown:
    """`text` as a fenced block that its content cannot end."""
    lines = plain(text).strip("\n")
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", lines)), default=0))
    return Markdown(f"{fence}{language}\n{lines}\n{fence}")


def link(text: str, target: str) -> Markdown:
    """A link to a file beside the report."""
    label = re.sub(r"\\.|[\[\]]", lambda found: found[0] if len(found[0]) > 1 else f"\\{found[0]}", md(text))
    return Markdown(f"[{label}]({urllib.parse.quote(target, errors='replace')})")


def _visible(line: str) -> str:
    # Control, direction-changing and line-breaking characters, and halves of a surrogate pair (no UTF-8 has them).
    if line.isprintable():
        return line
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(f"\\u{ord(char):04x}" if unicodedata.category(char) in hidden else char for char in line)


# ---------------------------------------------------------------- templates


@functools.cache
def template(name: str) -> Template:
    """`scripts/templates/<name>`, compiled once; jinja2 is loaded here, not where Snakemake starts."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        finalize=md,  # jinja2's own autoescape is for HTML
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.filters.update(code=code, block=code_block, prose=prose)
    return environment
