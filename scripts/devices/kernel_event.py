"""What torch.profiler saw of kernels, as it is written to a capture in the common format."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelEvent:
    """One kernel as torch.profiler saw it; times in ns since the epoch."""

    step_id: int | None
    name: str
    op_type: str
    core: str
    start_ns: int
    duration_ns: int
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    stream: int = 0
    device: int = 0


@dataclass(frozen=True)
class OpStatistic:
    """The profiler's own aggregate of one op type over the whole capture."""

    op_type: str
    core: str
    count: int
    total_ns: int
