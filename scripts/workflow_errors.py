"""Errors in the form that Snakemake shows as their sentence alone, without frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from snakemake.exceptions import SpawnedJobError, WorkflowError

from scripts import artifacts
from scripts.errors import ArtifactError, GoldenprofError

T = TypeVar("T")


class _Frameless(Exception):
    """Snakemake lists no frames where it sees no traceback; others (contextlib) set one on the way."""

    @property
    def __traceback__(self) -> None:  # type: ignore[override]
        return None

    @__traceback__.setter
    def __traceback__(self, frames: object) -> None:
        pass


class ConfigurationError(_Frameless, WorkflowError):
    """A user's mistake, shown by Snakemake as its sentence alone."""


class StepFailed(_Frameless, SpawnedJobError):
    """A step that has printed its own diagnosis: Snakemake adds which job failed, and nothing else."""


def explained(work: Callable[[], T]) -> T:
    """The result of `work`; an expected error becomes the workflow's own, which is shown without a traceback."""
    try:
        return work()
    except GoldenprofError as error:
        raise ConfigurationError(healed(error)) from None


def healed(error: GoldenprofError) -> str:
    """The error's text; a damaged artifact is put out of the way of the next run."""
    return artifacts.set_aside(error) if isinstance(error, ArtifactError) else str(error)
