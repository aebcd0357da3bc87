"""From libyaml's events to plain Python values: YAML 1.2 scalars, no tags, no duplicate keys, bounded aliases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from scripts.errors import ConfigError
from scripts.names import quote

MAX_VALUES = 1_000_000  # after the expansion of aliases
MAX_DEPTH = 64

Key = tuple[str | int, ...]  # where a value stands: ("operators", "softmax_golden", "cases", 0)

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


@dataclass(frozen=True)
class Problem:
    """One mistake: the line (1-based), where it stands, and a sentence."""

    line: int
    key: Key
    message: str


def scalar(text: str) -> Any:
    """The value of an unquoted YAML 1.2 scalar: "3" → 3, "1e-6" → 1e-06, "true" → True, "no" → "no", "" → None.

    A number of more digits than Python reads stays text.
    """
    try:
        return _resolve(text)
    except ValueError:
        return text


@lru_cache(maxsize=4096)
def _resolve(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    return float(text) if _FLOAT.fullmatch(text) else text


class _Frame:
    """One mapping or list that is still open."""

    __slots__ = ("anchor", "container", "first", "height", "key", "start")

    def __init__(self, container: dict[str, Any] | list[Any], anchor: str | None, start: int) -> None:
        self.container = container
        self.anchor = anchor
        self.start = start  # values counted before it
        self.height = 0  # of the highest value inside
        self.key: Any = _NO_KEY  # of a mapping whose value comes next
        self.first: dict[str, int] = {}  # key → line, for duplicates


_NO_KEY = object()
_DISCARD = object()  # in place of a key whose value is read and thrown away


class Builder:
    """Turns libyaml's events into values; with `lines` given, notes every key's line there too."""

    def __init__(self, path: Path, text: str, lines: dict[Key, int] | None = None) -> None:
        self.problems: list[Problem] = []
        self.lines = lines
        self._path = path
        self._text = text
        self._stack: list[_Frame] = [_Frame([], None, 0)]
        self._anchors: dict[str, tuple[Any, int, int]] = {}  # name → value, values in it, height
        self._count = 0

    def build(self) -> Any:
        """The file's value, None when it holds nothing. Raises ConfigError, and yaml.YAMLError for what is not YAML."""
        parser = yaml.CSafeLoader(self._text)
        try:
            self._take(parser)
        finally:
            parser.dispose()
        root = self._stack[0].container
        return root[0] if isinstance(root, list) and root else None

    def _take(self, parser: Any) -> None:
        handlers = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._open,
            yaml.SequenceStartEvent: self._open,
            yaml.MappingEndEvent: self._close,
            yaml.SequenceEndEvent: self._close,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        while (event := parser.get_event()) is not None:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)

    def _document(self, event: Any) -> None:
        if self._stack[0].container:
            raise self._stop(event, "a second document starts here; one file holds one. Remove the `---`.")

    def _scalar(self, event: Any) -> None:
        frame = self._stack[-1]
        if frame.key is _NO_KEY and type(frame.container) is dict:
            self._key(frame, event)
            return
        value = event.value
        if event.implicit[0]:
            try:
                value = _resolve(value)
            except ValueError:  # more digits than Python reads
                raise self._stop(event, f"a number of {len(value)} digits; at most 4300 are read.") from None
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1, 0)
        if event.tag is not None:
            self._refuse_tag(event)
        self._add(value, event, 1, 0)

    def _key(self, frame: _Frame, event: Any) -> None:
        """A key is its text as written: `1:`, `1e3:` and `true:` are the names "1", "1e3" and "true"."""
        text, line = event.value, event.start_mark.line + 1
        if event.tag is not None:
            self._refuse_tag(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (text, 1, 0)
        if text == "<<" and event.implicit[0]:
            message = (
                'merge keys ("<<") are not read. Put what is shared into `defaults` or the operator, or repeat it.'
            )
            self.problems.append(Problem(line, (*self._where(), text), message))
        elif text in frame.first:
            lines = f"on line {frame.first[text]} and on line {line}"
            message = f"{quote(text)} is given twice, {lines}. Remove or rename one."
            self.problems.append(Problem(line, (*self._where(), text), message))
        else:
            frame.first[text] = line
            frame.key = text
            return
        frame.key = _DISCARD

    def _open(self, event: Any) -> None:
        self._refuse_complex_key(event)
        if event.tag is not None:
            self._refuse_tag(event)
        container: dict[str, Any] | list[Any] = {} if type(event) is yaml.MappingStartEvent else []
        start = self._count
        self._add(container, event, 1, 0)
        self._stack.append(_Frame(container, event.anchor, start))
        if len(self._stack) > MAX_DEPTH:
            raise self._stop(event, f"nested deeper than {MAX_DEPTH} levels.")

    def _close(self, event: Any) -> None:
        frame = self._stack.pop()
        outer = self._stack[-1]
        outer.height = max(outer.height, frame.height + 1)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.container, self._count - frame.start, frame.height + 1)
        if outer.key is not _NO_KEY:
            outer.key = _NO_KEY

    def _alias(self, event: Any) -> None:
        self._refuse_complex_key(event)
        if event.anchor not in self._anchors:
            raise self._stop(event, f"*{event.anchor} refers to nothing that stands before it.")
        value, size, height = self._anchors[event.anchor]
        if len(self._stack) + height > MAX_DEPTH:
            raise self._stop(event, f"*{event.anchor} nests deeper than {MAX_DEPTH} levels.")
        self._add(value, event, size, height)

    def _add(self, value: Any, event: Any, size: int, height: int) -> None:
        """Store `value` under the pending key or at the end of the list; for an opened container the key stays."""
        self._count += size
        if self._count > MAX_VALUES:
            raise self._stop(event, f"more than {MAX_VALUES:,} values, aliases expanded; this is refused.")
        frame = self._stack[-1]
        frame.height = max(frame.height, height)
        if type(frame.container) is list:
            frame.container.append(value)
            if self.lines is not None:
                self.lines[self._where()] = event.start_mark.line + 1
            return
        if frame.key is not _DISCARD:
            frame.container[frame.key] = value  # type: ignore[call-overload]
            if self.lines is not None:
                self.lines[self._where()] = frame.first[frame.key]
        if type(event) is yaml.ScalarEvent or type(event) is yaml.AliasEvent:
            frame.key = _NO_KEY

    def _where(self) -> Key:
        """The key that was read last."""
        key: list[str | int] = []
        for frame in self._stack[1:]:
            if type(frame.container) is list:
                key.append(max(len(frame.container) - 1, 0))
            elif frame.key is not _NO_KEY:
                key.append("?" if frame.key is _DISCARD else frame.key)
        return tuple(key)

    def _refuse_tag(self, event: Any) -> None:
        message = f"the tag {quote(event.tag)} is not read. Remove it; put text that looks like a number in quotes."
        self.problems.append(Problem(event.start_mark.line + 1, self._where(), message))

    def _refuse_complex_key(self, event: Any) -> None:
        frame = self._stack[-1]
        if type(frame.container) is dict and frame.key is _NO_KEY:
            raise self._stop(event, "a key must be plain text, not a list, a mapping or an alias.")

    def _stop(self, event: Any, message: str) -> ConfigError:
        return ConfigError(f"{self._path}:{event.start_mark.line + 1}: {message}")
