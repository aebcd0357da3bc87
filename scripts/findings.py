"""What a check of the machine found: one line, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is; a `problem` stops some case, a `warning` may."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    level: Level
    subject: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        line = f"{self.level:<8} {self.subject}: {self.text}"
        return f"{line}\n{'':<9}→ {self.advice}" if self.advice else line


def ok(subject: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(Level.OK, subject, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    """Something that may spoil a result."""
    return Finding(Level.WARNING, subject, text, advice)


def problem(subject: str, text: str, advice: str) -> Finding:
    """Something that stops a case."""
    return Finding(Level.PROBLEM, subject, text, advice)
