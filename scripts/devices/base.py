"""The protocol that measuring is written against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from scripts.artifacts import DeviceInfo, Region

NOISE_LABEL = "goldenprof::noise"
GOLDEN_LABEL = "goldenprof::golden"


@dataclass
class Capture:
    """What a device's profiler left behind: a folder, and when each golden region ran."""

    folder: Path  # the `*_ascend_pt` folder
    regions: list[Region]


class Device(Protocol):
    """One device that goldens are profiled on. Every method runs in the process that owns the device."""

    torch_device: torch.device
    noise_types: tuple[str, ...]  # op types under which `torch.max` of the noise buffer may appear
    level: str  # profiler level that is asked for, "" where the profiler has none

    def info(self) -> DeviceInfo:
        """The device as it answers now."""

    def warnings(self) -> list[str]:
        """What a reader of the numbers must know about the state that the device was in when it was opened."""

    def synchronize(self) -> None:
        """Wait for everything that was launched."""

    def capture(self, iterate: Callable[[int], Region], iterations: int, folder: Path) -> Capture:
        """Run `iterate(k)` for every iteration under the profiler and keep the raw capture below `folder`.

        `iterate` opens with the noise and holds the golden's region between two synchronisations. An exception of the
        golden passes through, after the profiler was stopped.
        """

    def finish(self, capture: Capture) -> Capture:
        """Turn the raw capture into the common format. Called after the device was given free.

        Where `opening.analysis` has a function for the kind of device, another process may do that instead.
        """
