"""Rows of a capture on their way to a rule each."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise

import numpy as np

from scripts import noise
from scripts.artifacts import ProfileRecord, Region
from scripts.errors import CaseFailure
from scripts.kernel_table import KernelTable
from scripts.kernels import Kernels
from scripts.status import Status

RULES = ("golden", "noise", "restore", "before_noise", "outside_steps", "warm_up", "communication", "other_device")
GOLDEN, NOISE, RESTORE, BEFORE_NOISE, OUTSIDE_STEPS, WARM_UP, COMMUNICATION, OTHER_DEVICE = range(len(RULES))

COMMUNICATION_CORES = ("COMMUNICATION", "HCCL")
HOST_CLOCK_KINDS = ("cpu", "cuda")  # kernels are stamped on the clock that profile.json's regions are taken from
COPY = re.compile(r"copy|memcpy|tensormove|clone", re.IGNORECASE)  # names rows before the noise; drops nothing

AGAIN = "Profile the case again; if it happens again, raise `warmup`, and look into the case's log for profiler errors."


class Assignment:
    """Rule and iteration of every row, being filled in.

    `rule` is int8 (index into RULES) and `iteration` int32 (-1: none), one per row of `table`.
    """

    def __init__(self, table: KernelTable, profile: ProfileRecord) -> None:
        self.table, self.profile = table, profile
        self.kernels = Kernels.of(table)
        self.rule = np.full(len(table), OUTSIDE_STEPS, np.int8)
        self.iteration = np.full(len(table), -1, np.int32)
        self.step_ids: list[int | None] = []
        self.how = ""
        self.warnings: list[str] = []
        self.mine = _one_device(table, profile)
        self.rule[~self.mine] = OTHER_DEVICE
        signature, caution = noise.signature(table, profile.noise)
        self.signature = signature & self.mine
        self.copies = table.op.where(_is_copy) | table.name.where(_is_copy)
        self.warnings += [caution] if caution else []

    @property
    def expects_noise(self) -> bool:
        """False for a foreign capture that was made without noise: its profile.json names no types."""
        return bool(self.profile.noise.types)

    @property
    def noise(self) -> str:
        """The noise in words."""
        return noise.words(self.profile.noise)

    @cached_property
    def regions(self) -> list[Region]:
        """The golden regions by iteration, where their times are on the kernels' own clock; else none."""
        if self.profile.device.kind not in HOST_CLOCK_KINDS:
            return []
        return sorted((r for r in self.profile.regions if r.start_ns), key=lambda region: region.iteration)

    def before_noise(self, rows: np.ndarray) -> None:
        """Name rows that precede an iteration's noise."""
        restores = self.copies[rows] & bool(self.profile.restored)
        self.rule[rows] = np.where(restores, RESTORE, BEFORE_NOISE)

    def failure(self, message: str, advice: str = AGAIN) -> CaseFailure:
        """The case is incomplete for a reason found in its rows."""
        return CaseFailure(Status.INCOMPLETE, f"{self.table.paths[0]}: {message}", advice)

    def missing_noise(self, where: str, rows: np.ndarray) -> CaseFailure:
        """The noise kernel of an iteration is not among `rows`."""
        hint = noise.lookalikes(self.table, self.profile.noise, rows)
        return self.failure(
            f"the noise kernel ({self.noise}) of {where} is not in the capture: {hint}. Either the head of the window "
            "was lost, or the device gives the noise another type."
        )

    def describe(self, row: int) -> str:
        """A row for messages: its kernel, file and line."""
        return f"{self.kernels[row]}, {self.table.where(row)}"


def is_communication(core: str) -> bool:
    """Whether rows on this core are collective or point-to-point communication."""
    return core.upper() in COMMUNICATION_CORES


def listed(items: list) -> str:
    """Up to a dozen items for a message."""
    shown = ", ".join(map(str, items[:12]))
    return shown + (f" and {len(items) - 12} more" if len(items) > 12 else "") if items else "none"


def grouped(rows: np.ndarray, groups: np.ndarray, count: int) -> list[np.ndarray]:
    """`rows` as one array per group 0…count-1, each in the given order; other groups are left out."""
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(count + 1))
    return [rows[order[start:end]] for start, end in pairwise(bounds)]


def _is_copy(text: str) -> bool:
    return bool(COPY.search(text))


def _one_device(table: KernelTable, profile: ProfileRecord) -> np.ndarray:
    """Mask of the rows of the case's own device."""
    devices = {table.device.values[code] for code in np.unique(table.device.codes) if code >= 0}
    if len(devices) < 2:
        return np.ones(len(table), bool)
    if profile.device.physical_id not in devices:
        raise CaseFailure(
            Status.INCOMPLETE,
            f"{table.paths[0]}: the capture has kernels of devices {', '.join(sorted(devices))}, and the golden ran on "
            f"none of them according to profile.json (physical_id {profile.device.physical_id!r}).",
            "Profile with one visible device (ASCEND_RT_VISIBLE_DEVICES), or name the device when importing.",
        )
    return table.device.where(lambda device: device == profile.device.physical_id) | ~table.device.known
