"""The mistakes a user can meet.

GoldenprofError
├── ConfigError      cases.yaml or --config is wrong: nothing was run
├── ArtifactError    a file under prof/ cannot be read or written
└── CaseFailure      one case did not end `ok`; carries its Status and the advice

Every message is a sentence: what happened, where, what is allowed, what to do next.
"""

from __future__ import annotations

from pathlib import Path

from scripts.status import Status


class GoldenprofError(Exception):
    """Base of all expected errors; shown without a traceback."""


class ConfigError(GoldenprofError):
    """The configuration cannot be used; the message names file, line and key."""


class ArtifactError(GoldenprofError):
    """A file of the pipeline is missing, damaged or of another schema version.

    `damaged` is its path when it holds nothing that any version could have written, as after a power cut.
    """

    def __init__(self, message: str, damaged: Path | None = None) -> None:
        super().__init__(message)
        self.damaged = damaged


class CaseFailure(GoldenprofError):
    """A case ended in a status other than `ok`.

    `message` says what happened and where; `advice` what to do next.
    """

    def __init__(self, status: Status, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.advice = advice

    def __reduce__(self) -> tuple[type[CaseFailure], tuple[Status, str, str]]:
        return type(self), (self.status, self.message, self.advice)
