"""Strict reading of a YAML file, with the line of every key.

PyYAML's loaders follow YAML 1.1, take the last of two equal keys in silence and expand aliases without bound. Here
libyaml's events are turned into values directly, which is also several times faster than composing nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from scripts.errors import ConfigError
from scripts.yaml_values import Builder, Key, Problem

MAX_BYTES = 16 * 2**20
# Line ends for libyaml (YAML 1.1), ordinary characters in YAML 1.2: inside text they would become spaces.
_LINE_BREAKS = "\x85\u2028\u2029"


@dataclass
class Document:
    """A file's value (dicts with text keys, lists, str, int, float, bool, None) and the mistakes met on the way.

    An empty file has the value None. Of two equal keys the first is kept. Values under an alias are the same object as
    under its anchor: change nothing.
    """

    value: Any
    problems: list[Problem]
    _path: Path
    _text: str = field(repr=False)

    def line(self, key: Key) -> int:
        """The line of `key`, or of the innermost thing around it that is in the file."""
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)

    @cached_property
    def _lines(self) -> dict[Key, int]:
        # A second pass, only when there is a mistake to report.
        builder = Builder(self._path, self._text, lines={})
        builder.build()
        return builder.lines or {}


def read(path: Path) -> Document:
    """Read `path`.

    Raises ConfigError, with line and column where there are any, when the file is missing, too large, not UTF-8 or
    not YAML; mistakes that leave the rest readable are in the document's `problems`.
    """
    text = _text(path)
    builder = Builder(path, text)
    try:
        value = builder.build()
    except yaml.YAMLError as error:
        raise _not_yaml(path, text, error) from None
    return Document(value, builder.problems, path, text)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing. Write it, or name another cases file.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. A text file is wanted.") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_BYTES // 2**20} MiB, the most that is read. Split it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise ConfigError(f"{path}:{line}: not UTF-8: byte 0x{byte:02x}. Save the file as UTF-8.") from None
    for character in _LINE_BREAKS:
        if character in text:
            line = text.count("\n", 0, text.index(character)) + 1
            name = f"U+{ord(character):04X}"
            raise ConfigError(
                f'{path}:{line}: the character {name} is not read. Write "\\u{ord(character):04x}" instead.'
            )
    return text


def _not_yaml(path: Path, text: str, error: yaml.YAMLError) -> ConfigError:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.encode()[: error.position].count(b"\n") + 1
        return ConfigError(f"{path}:{line}: not YAML: {error.reason}. Remove the character.")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = " ".join(filter(None, (getattr(error, "context", None), getattr(error, "problem", None))))
    if mark is None:
        return ConfigError(f"{path}: not YAML: {problem or error}.")
    lines = text.split("\n")
    tab = mark.line < len(lines) and lines[mark.line][: mark.column + 1].endswith("\t")
    hint = " Indent with spaces: YAML allows no tabs." if tab else ""
    return ConfigError(f"{path}:{mark.line + 1}:{mark.column + 1}: not YAML: {problem}.{hint}")
