"""What can become of a case, and with which exit code a step says so."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The one word for how a case ended; the reason is a sentence beside it."""

    OK = "ok"
    SKIPPED = "skipped"
    GOLDEN_FAILED = "golden_failed"
    NO_KERNELS = "no_kernels"
    MISSING_OUTPUT = "missing_output"
    INCOMPLETE = "incomplete"
    TIMEOUT = "timeout"
    DEVICE_UNAVAILABLE = "device_unavailable"
    PROFILER_FAILED = "profiler_failed"

    @property
    def exit_code(self) -> int:
        """0 for a result, 2 when the golden is to blame, 3 for everything else."""
        if self is Status.OK:
            return 0
        return 2 if self is Status.GOLDEN_FAILED else 3
