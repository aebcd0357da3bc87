"""The files between the steps: one dataclass per file, read and written here only.

Every file is JSON, carries `schema_version` and `kind`, and is written atomically (temporary name in
the same folder, then rename). Durations are `Decimal` microseconds, so that sums are exact; time stamps are
strings, because epoch microseconds with a fraction do not fit a float64.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec

from scripts.cases import Case
from scripts.errors import ArtifactError
from scripts.status import Status

SCHEMA_VERSION = 1
# What its step makes anew when it is gone: one that this version cannot use is put aside.
DERIVED = ("output.json", "perf.json", "failure.json", "peaks.json")
# The cheap files that are made from a precious one.
MADE_FROM = {"profile.json": ("output.json", "perf.json"), "output.json": ("perf.json",)}


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a case's inputs or outputs."""

    name: str  # path in the call: "q", "args[0]", "kv[1]", "out[0]"
    shape: tuple[int, ...]
    dtype: str  # without "torch.": "bfloat16"
    nbytes: int
    sha256: str = ""  # of the raw bytes, inputs only
    init: str = ""  # the recipe, mode A only


@dataclass
class InputsRecord:
    """inputs.json: what make_inputs drew. The tensors themselves are in inputs.pt beside it."""

    kind: ClassVar[str] = "inputs"
    case: Case
    key: str
    tensors: list[TensorInfo]
    scalars: dict[str, Any]  # every other leaf of the call, by the same kind of path
    nbytes: int
    facts: dict[str, str] = field(default_factory=dict)  # how the file of a foreign source was used
    code: dict[str, str] = field(default_factory=dict)  # digest of the golden and of each local module, by file
    device_facts: dict[str, str] = field(default_factory=dict)  # device model and versions that the key stands for


@dataclass(frozen=True)
class DeviceInfo:
    """The device that a capture was really made on."""

    kind: str  # "cpu", "cuda", "npu"
    name: str  # as torch writes it: "cpu", "cuda:0", "npu:0"
    model: str  # "Ascend910B3", "NVIDIA H200", "AMD EPYC …"
    physical_id: str = ""  # id on the machine where it differs from `name`'s index
    stand_in: bool = False  # True when a simulated runtime answered instead of hardware


@dataclass(frozen=True)
class Region:
    """When one iteration's golden ran, on the host's clock (ns since the epoch)."""

    iteration: int  # 0-based
    step_id: int  # the Step Id its rows carry
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Noise:
    """The flush-and-marker kernel that opens every iteration: `torch.max` of one float32 buffer."""

    mib: float
    shape: tuple[int, ...]
    dtype: str
    types: tuple[str, ...]  # op types that the device may give it: "ReduceMax", "aten::max"


@dataclass
class ProfileRecord:
    """profile.json: everything needed to read the capture beside it, and to repeat it by hand."""

    kind: ClassVar[str] = "profile"
    operator: str
    case: str
    key: str
    device: DeviceInfo
    started_at: str  # ISO 8601 with offset
    profiler_dir: str  # name of the `*_ascend_pt` folder, relative to the key folder
    iterations: int
    warmup: int
    cache: str  # "cold" or "warm"
    noise: Noise
    restored: list[str]  # inputs that the golden mutates, put back before each iteration
    regions: list[Region]
    inputs: list[TensorInfo]
    scalars: dict[str, Any]
    outputs: list[TensorInfo]
    host_wall_us: list[Decimal]  # unprofiled pass, one sample per iteration
    profiled_wall_us: list[Decimal]  # the same region with the profiler on: shows the profiler's cost
    versions: dict[str, str]  # "torch", "torch_npu", "cann", "driver", "python", …
    environment: dict[str, str]  # host, os, cpu, threads, …: an allow-list
    settings: dict[str, Any]  # every resolved setting of the case
    command: str  # repeats this run by hand
    expected_level: str = ""  # profiler level asked for, "" where the device has none
    warnings: list[str] = field(default_factory=list)
    flops: int | None = None  # of one call, matmul-like operators only; None when they could not be counted
    bytes_moved: int | None = None  # of one call: its inputs read once, its results written once


@dataclass
class FailureRecord:
    """failure.json: why a step of a case did not end `ok`; removed when the step succeeds."""

    kind: ClassVar[str] = "failure"
    operator: str
    case: str
    key: str
    step: str
    status: Status
    message: str
    advice: str
    log: str
    command: str


@dataclass
class OutputRecord:
    """output.json: which file of the capture the numbers are read from, and why that one."""

    kind: ClassVar[str] = "output"
    profiler_dir: str  # relative to the key folder
    source: str  # file that is read, relative to the key folder
    source_kind: str  # "kernel_details", "op_summary" or "db"
    why: str
    others: list[str]  # what else lay there
    level: str  # profiler level found in profiler_info*.json, "" if unknown
    stamp: str = ""  # what made it, from what: see scripts/freshness.py


@dataclass(frozen=True)
class Spread:
    """Robust statistics of one series of samples, microseconds; nothing is deleted from it."""

    n: int
    median_us: Decimal
    min_us: Decimal
    max_us: Decimal
    iqr_us: Decimal
    relative_iqr: float  # IQR / median
    median_low_us: Decimal | None  # 95 % interval of the median; None below 3 samples
    median_high_us: Decimal | None
    outliers: int  # samples beyond 1.5 IQR of the quartiles


@dataclass
class IterationTotal:
    """One iteration of the golden."""

    iteration: int
    step_id: int | None
    kernels: int
    device_total_us: Decimal  # sum of durations
    device_span_us: Decimal  # first start to last end
    device_busy_us: Decimal  # union of busy intervals


@dataclass
class OpRow:
    """One op type (on one kind of core) in the central iteration(s): the rows add up to the E2E exactly."""

    op: str  # the Type column; the Name where a capture has no types
    core: str  # Accelerator Core
    count: int  # per iteration
    mean_us: Decimal
    total_us: Decimal  # of the central iteration, or the mean of the two central ones
    launch_us: Spread  # over every launch of all iterations


@dataclass
class KernelRow:
    """One kernel signature over all iterations, for kernel-level comparison."""

    op: str
    name: str
    core: str
    input_shapes: str
    count: int  # per iteration
    median_us: Decimal  # of one launch


@dataclass
class PipeRow:
    """How one op type used the core's pipes; only where the capture has PMU columns."""

    op: str
    core: str
    blocks: int | None
    shares: dict[str, float]  # "cube", "vector", "scalar", "mte1", "mte2", "mte3", "fixpipe" → 0…1 of core time
    bound: str  # the pipe with the largest share, or "unknown"
    wait_us: Decimal


@dataclass
class DroppedRow:
    """A row of the capture that is not in the E2E, and the rule that says so."""

    line: int  # 1-based line in the source file, 0 where the source has no lines
    rule: str  # one of assignment.RULES, "golden" excepted
    step_id: int | None
    op: str
    name: str
    input_shapes: str
    duration_us: Decimal


@dataclass
class CrossCheck:
    """The same sum from an independent source."""

    source: str  # "op_statistic.csv", "" when there is none
    agrees: bool | None  # None when there is no source
    ours_us: Decimal
    theirs_us: Decimal | None
    detail: str


@dataclass
class PerfRecord:
    """perf.json: the numbers of one case. Reports are made from this, and from the peaks of its device."""

    kind: ClassVar[str] = "perf"
    profile: ProfileRecord
    output: OutputRecord
    status: Status
    e2e_us: Decimal  # median over iterations of the device total
    all_rows_us: Decimal  # every row of the capture
    dropped_us: Decimal
    iterations: list[IterationTotal]
    device_total: Spread
    device_span: Spread
    host_wall: Spread | None
    profiled_wall: Spread | None
    busy_share: float  # median of busy / span
    ops: list[OpRow]
    kernels: list[KernelRow]
    pipes: list[PipeRow]
    dropped: list[DroppedRow]
    cross_check: CrossCheck
    attribution: str  # sentence: how rows were assigned
    warnings: list[str]
    stamp: str = ""  # what made it, from what: see scripts/freshness.py


T = TypeVar("T")


def write(path: Path, record: Any) -> None:
    """Write `record` to `path` as JSON, atomically, stamped with its kind and the schema version."""
    fields = msgspec.to_builtins(record, builtin_types=(Decimal,))
    body = {"schema_version": SCHEMA_VERSION, "kind": record.kind, **fields}
    text = msgspec.json.Encoder(decimal_format="number").encode(body)
    write_bytes(path, msgspec.json.format(text, indent=1) + b"\n")


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` by way of a temporary name in the same folder, so that no reader sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path, record_type: type[T]) -> T:
    """Read `path` as `record_type`.

    Raises ArtifactError when the file is missing, is no JSON, has another kind or schema version, or lacks fields. One
    of DERIVED counts as damaged then.
    """
    derived = path if path.name in DERIVED else None
    again = "Run it again." if derived else f"Remove {path.parent} and run the case again."
    try:
        raw = _fields(path)
        version = msgspec.json.decode(raw.pop("schema_version", b"null"))
        kind = msgspec.json.decode(raw.pop("kind", b"null"))
        if version != SCHEMA_VERSION or kind != record_type.kind:  # type: ignore[attr-defined]
            raise ArtifactError(
                f"{path} has kind {kind!r} and schema_version {version!r}; this version reads "
                f"{record_type.kind!r} with schema_version {SCHEMA_VERSION}. {again}",  # type: ignore[attr-defined]
                damaged=derived,
            )
        return msgspec.json.decode(msgspec.json.encode(raw), type=record_type)
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{path} is missing. Run its step again: snakemake makes it from what precedes it."
        ) from error
    except (msgspec.MsgspecError, OSError) as error:
        message = f"{path} cannot be read as {record_type.__name__}: {error}. {again}"
        raise ArtifactError(message, None if isinstance(error, OSError) else derived) from error


def _fields(path: Path) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ArtifactError(
            f"{path} cannot be read: it holds no JSON ({error}). Remove it and run again.", damaged=path
        ) from error


def set_aside(error: ArtifactError) -> str:
    """Take a damaged file, and what was made from it, out of the way of the next run; the error's text for the user.

    The file itself is kept as `<name>.damaged`.
    """
    path = error.damaged
    if path is None:
        return str(error)
    kept = path.with_name(f"{path.name}.damaged")
    try:
        os.replace(path, kept)
        for name in MADE_FROM.get(path.name, ()):
            path.with_name(name).unlink(missing_ok=True)
    except OSError as trouble:
        return f"{error} (Tried: {trouble}.)"
    return f"{error} (Done: it is now {kept.name}.)"


def umask() -> int:
    """The process's umask. It is read where that is possible: setting it, if for a moment, reaches every thread."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("Umask:")).split()[1], 8)
    except (OSError, StopIteration):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask
