"""Several callables measured in turn, in one process: whatever drifts meanwhile, drifts for all of them.

A round calls each once, in rotated order, each after its own restore and noise as in every other measurement. Imports
torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scripts import artifacts, attribution, cross_check, kernel_table, locate_output
from scripts.artifacts import Noise, ProfileRecord, Region
from scripts.attribution import GOLDEN
from scripts.devices.base import Capture, Device
from scripts.errors import CaseFailure
from scripts.kernel_table import Coded, KernelTable
from scripts.measure import GoldenCrash, Measurement


@dataclass
class Contestant:
    """A callable with its arguments on the device, checked and warmed up, and the noise that precedes each call."""

    name: str
    measurement: Measurement
    noise: Noise


class ContestantFailed(GoldenCrash):
    """A contestant raised when it was its turn."""

    def __init__(self, name: str, crash: GoldenCrash) -> None:
        Exception.__init__(self, str(crash))
        self.name = name
        self.error = crash.error


@dataclass(frozen=True)
class DeviceTime:
    """One contestant's times out of a capture, or why there are none."""

    samples_us: list[Decimal]  # device total of every round
    problem: str = ""


def host_walls(contestants: Sequence[Contestant], rounds: int) -> list[list[Decimal]]:
    """Wall times in microseconds, one list per contestant, one sample per round; without a profiler.

    Raises ContestantFailed.
    """
    with torch.no_grad():
        for k, turn in enumerate(_turns(len(contestants), rounds)):
            _iterate(contestants[turn], k)
    return [contestant.measurement.taken_us() for contestant in contestants]


def device_times(device: Device, contestants: Sequence[Contestant], rounds: int, folder: Path) -> list[DeviceTime]:
    """The device total of each contestant's calls, from one capture below `folder` in which they took turns.

    Raises ContestantFailed.
    """
    turns = _turns(len(contestants), rounds)
    with torch.no_grad():
        capture = device.capture(lambda k: _iterate(contestants[turns[k]], k), len(turns), folder)
    for contestant in contestants:
        contestant.measurement.taken_us()
    return _read(device, contestants, turns, device.finish(capture), folder)


def _iterate(contestant: Contestant, k: int) -> Region:
    try:
        return contestant.measurement.iterate(k)
    except GoldenCrash as crash:
        raise ContestantFailed(contestant.name, crash) from crash


def _turns(contestants: int, rounds: int) -> list[int]:
    """Whose turn each iteration is; the order rotates, so that nobody always follows the same one."""
    return [(place + round_) % contestants for round_ in range(rounds) for place in range(contestants)]


def _read(
    device: Device, contestants: Sequence[Contestant], turns: list[int], capture: Capture, folder: Path
) -> list[DeviceTime]:
    whole = _profile(device, contestants[0], capture, capture.regions)
    artifacts.write(folder / "profile.json", whole)
    output = locate_output.locate(folder)
    table = kernel_table.read(folder / output.source, output.source_kind)
    cross_check.check(table)
    return [
        _own_times(device, contestant, capture, table, [r for r in capture.regions if turns[r.iteration] == index])
        for index, contestant in enumerate(contestants)
    ]


def _own_times(
    device: Device, contestant: Contestant, capture: Capture, table: KernelTable, regions: list[Region]
) -> DeviceTime:
    own = [replace(region, iteration=k) for k, region in enumerate(regions)]
    part = _part(table, {region.step_id for region in own})
    try:
        attributed = attribution.attribute(part, _profile(device, contestant, capture, own))
    except CaseFailure as failure:
        return DeviceTime([], failure.message)
    golden = attributed.rule == GOLDEN
    return DeviceTime([part.total_us(golden & (attributed.iteration == k)) for k in range(len(own))])


def _part(table: KernelTable, steps: set[int]) -> KernelTable:
    """The rows of some steps. As in a database export, they have no lines to point at."""
    mask = table.step_id.where(lambda step: step in steps)
    columns: dict[str, Any] = {
        name: Coded(column.codes[mask], column.values) if isinstance(column, Coded) else column[mask]
        for name, column in vars(table).items()
        if isinstance(column, Coded | np.ndarray)
    }
    pmu = {name: column[mask] for name, column in table.pmu.items()}
    return replace(table, kind="db", first_rows=(0,), paths=table.paths[:1], pmu=pmu, **columns)


def _profile(device: Device, contestant: Contestant, capture: Capture, regions: list[Region]) -> ProfileRecord:
    """What the attribution of one contestant's rows needs to know."""
    measurement = contestant.measurement
    return ProfileRecord(
        operator="session",
        case=contestant.name,
        key="",
        device=device.info(),
        started_at=datetime.now().astimezone().isoformat(),
        profiler_dir=capture.folder.name,
        iterations=len(regions),
        warmup=0,
        cache="",
        noise=contestant.noise,
        restored=list(measurement.pristine),
        regions=regions,
        inputs=[],
        scalars={},
        outputs=measurement.outputs,
        host_wall_us=[],
        profiled_wall_us=[],
        versions={},
        environment={},
        settings={},
        command="",
        expected_level=device.level,
        flops=measurement.flops,
        bytes_moved=measurement.bytes_moved,
    )
