"""What a device can do, measured on this one; and several callables in one session."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
import torch

from scripts import artifacts, measure, measure_peaks, peaks, session
from scripts.artifacts import Noise
from scripts.devices.identity import resolve
from scripts.devices.opening import open_device
from scripts.peaks import PeaksRecord
from scripts.session import Contestant, DeviceTime

NOISE = Noise(0.1, (26215,), "float32", ("aten::max",))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[PeaksRecord, Path]:
    folder = tmp_path_factory.mktemp("device")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(peaks, "DTYPES", ("float32",))
    monkeypatch.setattr(measure_peaks, "COPY_MIB", 16)
    phases: list[str] = []
    record = measure_peaks.run("cpu", folder / "peaks.json", phases.append)
    monkeypatch.undo()
    assert phases[-1] == "running"
    return record, folder


def test_peaks_are_rates_that_a_processor_can_have(measured: tuple[PeaksRecord, Path]) -> None:
    record, _ = measured
    peak = record.of("float32")
    assert peak is not None and peak.problem == ""
    assert 1e-4 < peak.tflops < 100
    assert 0.1 < peak.gbps < 10_000


def test_the_flush_is_tried_with_a_copy_that_fits_the_cache(measured: tuple[PeaksRecord, Path], tmp_path: Path) -> None:
    check = measured[0].cache
    assert check.copy_bytes == 2**20
    assert check.cold.n == check.warm.n == measure_peaks.CACHE_ITERATIONS
    for attempt in range(3):  # on a busy machine even the fastest of many may have been disturbed
        if check.warm.min_us < check.cold.min_us:
            break
        check = measure_peaks._cache_check(open_device(resolve("cpu")), tmp_path / str(attempt))
    assert check.warm.min_us < check.cold.min_us


@pytest.mark.parametrize(
    ("cold", "warm", "flushes"), [(57, 8, True), (8, 8, False), (8, 57, False), ("noise", "noise", None)]
)
def test_the_flush_works_when_cold_is_slower_beyond_doubt(
    cold: object, warm: object, flushes: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = [Decimal(5 * (1 + 7 * k % 20)) for k in range(20)]
    samples = [
        noise[::step] if median == "noise" else [Decimal(median)] * 20 for median, step in ((cold, 1), (warm, -1))
    ]
    monkeypatch.setattr(session, "device_times", lambda *_: [DeviceTime(found) for found in samples])
    check = measure_peaks._cache_check(open_device(resolve("cpu")), tmp_path)
    assert check.flushes is flushes, check.reason


def test_the_record_comes_back_and_no_capture_is_left(measured: tuple[PeaksRecord, Path]) -> None:
    record, folder = measured
    assert artifacts.read(folder / "peaks.json", PeaksRecord) == record
    assert [path.name for path in folder.iterdir()] == ["peaks.json"]


def test_a_dtype_that_the_device_cannot_multiply_is_a_problem_and_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_peaks, "COPY_MIB", 1)
    peak = measure_peaks._peak(open_device(resolve("cpu")), "bool", tmp_path)
    assert peak.matmul is None and peak.tflops is None
    assert peak.problem.startswith("matmul: ")


# ---------------------------------------------------------------- session


def contestant(name: str, function: object, *args: torch.Tensor, noise: Noise = NOISE) -> Contestant:
    measurement = measure.prepare(open_device(resolve("cpu")), function, args, {}, [], noise)
    measurement.check()
    return Contestant(name, measurement, noise)


def test_contestants_take_turns_and_each_gets_its_own_rows(tmp_path: Path) -> None:
    order: list[str] = []

    def one(x: torch.Tensor) -> torch.Tensor:
        order.append("one")
        return x.amax()

    def three(x: torch.Tensor) -> torch.Tensor:
        order.append("three")
        return x.exp().exp().exp()

    x = torch.ones(300, 300)
    other_noise = Noise(0.02, (5003,), "float32", ("aten::max",))
    contestants = [contestant("one", one, x), contestant("three", three, x, noise=other_noise)]
    order.clear()
    times = session.device_times(open_device(resolve("cpu")), contestants, 4, tmp_path)
    assert order == ["one", "three", "three", "one"] * 2
    assert [(len(time.samples_us), time.problem) for time in times] == [(4, ""), (4, "")]
    assert min(times[1].samples_us) > min(times[0].samples_us), "three exponentials against one reduction"


def test_one_that_shows_no_kernels_does_not_spoil_the_others(tmp_path: Path) -> None:
    x = torch.ones(8, 8)
    contestants = [contestant("view", lambda x: x.t(), x), contestant("copy", lambda x: x.clone(), x)]
    view, copy = session.device_times(open_device(resolve("cpu")), contestants, 3, tmp_path)
    assert view.samples_us == [] and "none of the" in view.problem
    assert len(copy.samples_us) == 3


def test_host_walls_are_one_sample_a_round_each() -> None:
    x = torch.ones(8)
    walls = session.host_walls([contestant("a", lambda x: x + 1, x), contestant("b", lambda x: x * 2, x)], 5)
    assert [len(samples) for samples in walls] == [5, 5]
    assert all(sample > 0 for samples in walls for sample in samples)
