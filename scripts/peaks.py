"""prof/.devices/<environment digest>/peaks.json: what a device can do at most, and whether its cache can be flushed.

Measured once per device model and set of versions, with the machinery that measures goldens. Read where reports are
made, so that torch is not imported here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from scripts import artifacts
from scripts.artifacts import DeviceInfo, Spread, TensorInfo

DTYPES = ("bfloat16", "float16", "float32", "float64")
FOLDER = Path("prof/.devices")


@dataclass
class Peak:
    """What the device does at most in one dtype."""

    dtype: str
    matmul_size: int  # n of an n × n × n matrix product
    matmul: Spread | None  # device total of one product
    copy_bytes: int  # read plus written
    copy: Spread | None  # device total of one copy
    problem: str = ""  # why one of them is missing

    @property
    def tflops(self) -> float | None:
        """Of the fastest product, TFLOP/s: a bound, so not the median."""
        return 2 * self.matmul_size**3 / float(self.matmul.min_us) / 1e6 if self.matmul else None

    @property
    def gbps(self) -> float | None:
        """Of the fastest copy, GB/s (10^9 bytes)."""
        return self.copy_bytes / float(self.copy.min_us) / 1e3 if self.copy else None


@dataclass
class CacheCheck:
    """A copy that fits the cache, timed after the flush and without it."""

    copy_bytes: int
    flush_mib: float
    cold: Spread | None
    warm: Spread | None
    flushes: bool | None  # whether cold is slower; None when it could not be told
    reason: str


@dataclass
class PeaksRecord:
    """peaks.json."""

    kind: ClassVar[str] = "peaks"
    device: DeviceInfo
    versions: dict[str, str]
    measured_at: str  # ISO 8601 with offset
    peaks: list[Peak]
    cache: CacheCheck | None
    load_1min: str  # of the host, before: a busy one makes a peak too low
    problem: str = ""  # why nothing could be measured

    def of(self, dtype: str) -> Peak | None:
        """The peak of one dtype."""
        return next((peak for peak in self.peaks if peak.dtype == dtype), None)

    @property
    def gbps(self) -> float | None:
        """The fastest copy in any dtype."""
        return max((peak.gbps for peak in self.peaks if peak.gbps), default=None)


def path_of(key: str, root: Path = Path()) -> Path:
    """peaks.json for the device in a content key; `root` is the folder that holds prof/."""
    return root / FOLDER / key.rpartition("-")[2] / "peaks.json"


def read_of(key: str, root: Path = Path()) -> PeaksRecord | None:
    """The peaks of the device in a content key, None where they were not measured."""
    path = path_of(key, root)
    return artifacts.read(path, PeaksRecord) if path.exists() else None


def write_problem(path: Path, device: str, problem: str) -> None:
    """Record that the peaks of `device` ("cpu", "cuda:0") could not be measured, so that reports can say so."""
    now = datetime.now().astimezone().isoformat()
    artifacts.write(path, PeaksRecord(DeviceInfo(device.split(":")[0], device, ""), {}, now, [], None, "", problem))


def dtype_of(tensors: Iterable[TensorInfo]) -> str:
    """The dtype whose peak a call is held against: of the floating-point inputs, that of most bytes; "" without."""
    sizes: dict[str, int] = {}
    for tensor in tensors:
        if "float" in tensor.dtype:
            sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.nbytes
    return max(sizes, key=lambda dtype: sizes[dtype]) if sizes else ""
