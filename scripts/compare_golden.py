"""A golden against candidates: the same inputs, one process, in turns. Imports torch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import torch

from scripts import candidates, handout, make_inputs, measure, session, sources, tensors
from scripts.artifacts import DeviceInfo, Noise, TensorInfo
from scripts.candidates import Tolerance
from scripts.cases import Case
from scripts.devices import identity, opening
from scripts.devices.identity import DeviceIdentity
from scripts.errors import CaseFailure, GoldenprofError
from scripts.measure import GoldenCrash, Measurement
from scripts.plan import ROOT
from scripts.session import Contestant, ContestantFailed
from scripts.status import Status

GOLDEN = "golden"


@dataclass
class Timed:
    """One callable's samples, microseconds, one per round."""

    name: str
    wall_us: list[Decimal] = field(default_factory=list)
    device_us: list[Decimal] = field(default_factory=list)  # empty where the profiler cannot see its kernels
    problem: str = ""  # why it was not measured: it failed, or does not return what the golden returns


@dataclass
class CaseTimes:
    """The golden and its candidates on one case."""

    case: str
    inputs: list[TensorInfo]
    scalars: dict[str, Any]
    device: DeviceInfo
    cache: str
    versions: dict[str, str]
    golden: Timed
    candidates: list[Timed]
    device_note: str = ""  # why there are no device times


def measure_case(case: Case, specs: Sequence[str], rounds: int, tolerance: Tolerance) -> CaseTimes:
    """Measure the golden of `case` and every candidate in turns, `rounds` times.

    A candidate that fails or returns something else is not measured; its `problem` says why. Raises CaseFailure when
    the golden itself cannot be measured.
    """
    found = identity.resolve(case.settings.device)
    with _bench(case, found) as bench:
        functions = {spec: candidates.load(spec, bench.golden.function) for spec in specs}
        timed = [bench.prepare(spec, function, tolerance) for spec, function in functions.items()]
        note = bench.measure(rounds, tolerance)
    return CaseTimes(
        case=case.id,
        inputs=[tensors.describe(path, tensor) for path, tensor in bench.golden.tensors().items()],
        scalars=bench.scalars(),
        device=bench.device.info(),
        cache=case.settings.cache,
        versions=found.versions,
        golden=bench.timed[GOLDEN],
        candidates=timed,
        device_note=note,
    )


def same_twice(case: Case, pairs: int, rounds: int) -> tuple[list[tuple[list[Decimal], list[Decimal]]], DeviceInfo]:
    """Host walls of the golden against itself, in turns: `pairs` pairs of `rounds` samples each, microseconds."""
    with _bench(case, identity.resolve(case.settings.device)) as bench:
        bench.prepare("again", bench.golden.function, Tolerance())
        return [bench.walls(rounds) for _ in range(pairs)], bench.device.info()


@contextmanager
def _bench(case: Case, found: DeviceIdentity) -> Iterator[_Bench]:
    """The golden of `case` on its device, which is held meanwhile."""
    if found.problem:
        raise CaseFailure(Status.DEVICE_UNAVAILABLE, found.problem, "`goldenprof doctor` says what is there.")
    source = sources.open_source(case, (Path.cwd(), ROOT))
    args, kwargs = source.arguments()
    with handout.device_for(found.name, (), lambda phase: None) as device_here, torch.no_grad():
        device = opening.open_device(device_here)
        function = source.function(device.torch_device)
        make_inputs.seed_everything(case.settings.seed)
        noise = measure.noise_of(case.settings, device)
        golden = measure.prepare(device, function, args, kwargs, source.parameters, noise)
        try:
            yield _Bench(golden, noise, case.settings.warmup)
        except GoldenCrash as crash:
            raise CaseFailure(
                Status.GOLDEN_FAILED, str(crash), "Profile the case to see the whole diagnosis."
            ) from crash


class _Bench:
    """The golden on its device with its reference results, and who takes part."""

    def __init__(self, golden: Measurement, noise: Noise, warmup: int) -> None:
        self.device = golden.device
        self.golden = golden
        self._noise = noise
        self._warmup = warmup
        self.golden.check()
        self._expected = self._results(self.golden)
        self.timed = {GOLDEN: Timed(GOLDEN)}
        self._contestants = [Contestant(GOLDEN, self.golden, self._noise)]

    def prepare(self, spec: str, function: Any, tolerance: Tolerance) -> Timed:
        """Check one candidate; it takes part if it returns what the golden returns."""
        own = self.golden
        measurement = Measurement(self.device, function, own.args, own.kwargs, own.names, own.buffer)
        timed = Timed(spec)
        own.restore()
        try:
            measurement.check()
            measurement.restore()
            strange = measurement.pristine.keys() - own.pristine.keys()
            if strange:
                timed.problem = f"it changes {', '.join(sorted(strange))}, which the golden leaves alone"
                return timed
            measurement.pristine = own.pristine
            timed.problem = candidates.difference(self._expected, self._results(measurement), tolerance)
        except (GoldenCrash, GoldenprofError) as error:
            timed.problem = str(error)
        if not timed.problem:
            self.timed[spec] = timed
            self._contestants.append(Contestant(spec, measurement, self._noise))
        return timed

    def measure(self, rounds: int, tolerance: Tolerance) -> str:
        """Fill in everybody's times; returns why there are no device times, "" when there are.

        A candidate that fails meanwhile drops out, and the others are measured anew; one that does not return what the
        golden returns any more has no times.
        """
        while True:
            try:
                note = self._measure(rounds)
                break
            except ContestantFailed as failed:
                self._drop(failed)
        for contestant in self._contestants[1:]:
            timed = self.timed[contestant.name]
            try:
                problem = candidates.difference(self._expected, self._results(contestant.measurement), tolerance)
            except GoldenCrash as crash:
                problem = str(crash)
            if problem:
                timed.problem, timed.wall_us, timed.device_us = f"after it was measured, {problem}", [], []
        return note

    def _drop(self, failed: ContestantFailed) -> None:
        if failed.name == GOLDEN:
            raise failed
        self.timed[failed.name].problem = str(failed)
        self._contestants = [one for one in self._contestants if one.name != failed.name]
        for contestant in self._contestants:
            contestant.measurement.taken_us()

    def _measure(self, rounds: int) -> str:
        for contestant in self._contestants:
            try:
                contestant.measurement.warm_up(self._warmup)
            except GoldenCrash as crash:
                raise ContestantFailed(contestant.name, crash) from crash
        for contestant, walls in zip(self._contestants, session.host_walls(self._contestants, rounds), strict=True):
            self.timed[contestant.name].wall_us = walls
        if self.device.torch_device.type == "cpu":
            return (
                "on the CPU the profiler sees torch's operators only, not what a compiled or foreign candidate runs: "
                "candidates are compared by host wall"
            )
        with tempfile.TemporaryDirectory(prefix="goldenprof-compare-") as folder:
            times = session.device_times(self.device, self._contestants, rounds, Path(folder))
        for contestant, device_time in zip(self._contestants, times, strict=True):
            self.timed[contestant.name].device_us = device_time.samples_us
        return "; ".join(f"{c.name}: {t.problem}" for c, t in zip(self._contestants, times, strict=True) if t.problem)

    def walls(self, rounds: int) -> tuple[list[Decimal], list[Decimal]]:
        """Host walls of the golden and the one candidate."""
        golden, candidate = session.host_walls(self._contestants, rounds)
        return golden, candidate

    def scalars(self) -> dict[str, Any]:
        """Every argument of the call that is no tensor, by its path."""
        leaves = tensors.leaves(self.golden.args, self.golden.kwargs, self.golden.names)
        return {path: leaf for path, leaf in leaves if not isinstance(leaf, torch.Tensor)}

    def _results(self, measurement: Measurement) -> dict[str, Any]:
        """What a call returns and what it writes into its inputs, from the inputs as they are drawn."""
        self.golden.restore()
        result = candidates.snapshot(measurement.call("a call whose results are checked"))
        written = {f"input {name}": tensor.clone() for name, (tensor, _) in self.golden.pristine.items()}
        self.golden.restore()
        return {**result, **written}
