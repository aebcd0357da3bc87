"""Which devices this run still hands out. One that does not work is taken out, with the reason.

Its case then goes to another. A device is at fault when it cannot be opened, or when the doctor's small operator fails
there after a case has failed in a way that the device may be to blame for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from scripts.errors import CaseFailure
from scripts.handout import OPENING
from scripts.plan import PlannedCase
from scripts.status import Status
from scripts.warm.protocol import Answer

OPENING_LIMIT_S = float(os.environ.get("GOLDENPROF_OPENING_S") or 120)  # an NPU takes some seconds, on a busy host more
PROBE_LIMIT_S = 120.0
MOST_WORN_OUT = 2  # devices that work no more after one and the same case: then the case is at fault
# How a case ends where its device may be to blame: nothing was collected, or the device did not answer.
DOUBTFUL = (Status.PROFILER_FAILED, Status.TIMEOUT, Status.DEVICE_UNAVAILABLE)


@dataclass(frozen=True)
class Trail:
    """What a job has met so far."""

    notes: tuple[str, ...] = ()  # a sentence for every device that was taken out
    worn_out: int = 0  # devices among them that had opened before the case ran
    failure: CaseFailure | None = None  # how the case failed on the device that is being probed

    def told(self, answer: Answer) -> Answer:
        """`answer` after the notes."""
        return replace(answer, text="\n".join(filter(None, (*self.notes, answer.text))))


@dataclass(frozen=True)
class Following:
    """What is to be done next for a job: a step, on `device` where one is named; no step ends it as `trail` says."""

    step: str
    trail: Trail
    device: str = ""


@dataclass
class Roster:
    """The devices of this run."""

    out: dict[str, str] = field(default_factory=dict)  # why, by name
    used: set[str] = field(default_factory=set)  # those that have opened
    turns: int = 0

    def left(self, planned: PlannedCase) -> PlannedCase:
        """`planned` with the devices that are left for it, each time another one first: all are to be used alike."""
        names = [name for name in planned.devices if name not in self.out]
        self.turns += 1
        first = self.turns % len(names) if names else 0
        return replace(planned, devices=(*names[first:], *names[:first]))

    def none_left(self, planned: PlannedCase) -> CaseFailure:
        """For a case whose devices are all taken out."""
        reasons = " ".join(f"{name}: {self.out[name]}" for name in planned.devices if name in self.out)
        return CaseFailure(
            Status.DEVICE_UNAVAILABLE,
            f"No device is left for {planned.case.id}. {reasons}",
            "Mend the devices, or name others: `goldenprof doctor --device NAME` says how one does. The next run tries "
            "all of them again.",
        )

    def after_failure(self, asked: str, device: str, phase: str, failure: CaseFailure, trail: Trail) -> Following:
        """What follows when a step on `device` failed in `phase`; `asked` is the step that the job is about.

        A device that cannot be opened is out. One that is in doubt is probed, and out if that fails too; `trail` then
        holds how the case had failed there. Everything else is the case's own failure.
        """
        probed = trail.failure is not None
        if not probed and not (device_of(phase) and failure.status is Status.DEVICE_UNAVAILABLE):
            return Following("probe" if failure.status in DOUBTFUL else "", replace(trail, failure=failure), device)
        self.out[device] = failure.message
        sentence = f"{device} is taken out of this run: {failure.message}"
        trail = replace(trail, notes=(*trail.notes, sentence), worn_out=trail.worn_out + probed)
        if trail.worn_out >= MOST_WORN_OUT:
            return Following("", trail)
        return Following(asked, replace(trail, failure=None))


def device_of(phase: str) -> str:
    """The device's name in the phase that says which one is opened, "" in any other."""
    return phase.removeprefix(OPENING).strip() if phase.startswith(OPENING) else ""


def limit_s(phase: str, step: str, timeout_s: float) -> float:
    """Seconds that a phase may take; 0 where no time counts."""
    if device_of(phase):
        return OPENING_LIMIT_S
    if phase not in ("running", "finishing", "analysing"):
        return 0.0
    return PROBE_LIMIT_S if step == "probe" else timeout_s
