"""Example records for tests of what is made from them: consistent, and small enough to check by hand."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from statistics import median, quantiles
from typing import Any

from scripts.artifacts import (
    CrossCheck,
    DeviceInfo,
    DroppedRow,
    FailureRecord,
    IterationTotal,
    KernelRow,
    Noise,
    OpRow,
    OutputRecord,
    PerfRecord,
    PipeRow,
    ProfileRecord,
    Region,
    Spread,
    TensorInfo,
)
from scripts.status import Status

PROFILER_DIR = "host_1_20260609100000000_ascend_pt"
QKV = [TensorInfo(name, (2, 8, 512, 64), "bfloat16", 1048576, init="randn") for name in "qkv"]
OPS = (("MatMulV2", "AI_CORE", 2, "90.4"), ("SoftmaxV2", "AI_VECTOR_CORE", 1, "32.1"))
SCALED = ("1", "0.99", "1.02")  # an iteration's total as a multiple of the first one's


def spread(*samples: str | Decimal) -> Spread:
    """Statistics of `samples`, computed apart from the project's own."""
    values = [Decimal(sample) for sample in samples]
    quarter = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    middle, iqr = Decimal(median(values)), Decimal(quarter[2] - quarter[0])
    enough = len(values) >= 3
    return Spread(
        n=len(values),
        median_us=middle,
        min_us=min(values),
        max_us=max(values),
        iqr_us=iqr,
        relative_iqr=float(iqr / middle) if middle else 0.0,
        median_low_us=min(values) if enough else None,
        median_high_us=max(values) if enough else None,
        outliers=0,
    )


def profile_record(
    operator: str = "attention_golden",
    case: str = "perf_p0_small",
    device: DeviceInfo | None = None,
    iterations: int = 3,
    **changes: Any,
) -> ProfileRecord:
    """A profile of attention on one NPU; `changes` replace any field."""
    fields: dict[str, Any] = {
        "operator": operator,
        "case": case,
        "key": "0123456789abcdef",
        "device": device or DeviceInfo("npu", "npu:0", "Ascend910B3", physical_id="3"),
        "started_at": "2026-06-09T10:00:00.000000+00:00",
        "profiler_dir": PROFILER_DIR,
        "iterations": iterations,
        "warmup": 3,
        "cache": "cold",
        "noise": Noise(480.0, (10240, 12288), "float32", ("ReduceMax",)),
        "restored": [],
        "regions": [Region(i, i + 1, 1000 * i, 1000 * i + 500) for i in range(iterations)],
        "inputs": list(QKV),
        "scalars": {},
        "outputs": [TensorInfo("out", (2, 8, 512, 64), "bfloat16", 1048576)],
        "host_wall_us": [Decimal("301.5")] * iterations,
        "profiled_wall_us": [Decimal(402)] * iterations,
        "versions": {"torch": "2.13.0", "torch_npu": "2.13.0", "python": "3.11.2"},
        "environment": {"host": "npu-7", "threads": "1"},
        "settings": {"iterations": iterations, "warmup": 3, "seed": 0},
        "command": f"python -m scripts.profile {operator}/{case}",
        "expected_level": "Level1",
    }
    return ProfileRecord(**{**fields, **changes})


def perf_record(
    profile: ProfileRecord | None = None,
    ops: Sequence[tuple[str, str, int, str]] = OPS,
    pipes: Sequence[PipeRow] = (),
    extra_dropped: Sequence[DroppedRow] = (),
    **changes: Any,
) -> PerfRecord:
    """The numbers of `profile`: op type, core, count per iteration and total of the median iteration per op.

    The last iterations are a bit faster and slower than the first, which is the median one.
    """
    profile = profile or profile_record()
    rows = [
        OpRow(op, core, count, Decimal(total) / count, Decimal(total), spread(*[Decimal(total) / count] * 3))
        for op, core, count, total in ops
    ]
    e2e = sum((row.total_us for row in rows), Decimal(0))
    totals = [e2e * Decimal(SCALED[i % 3]) if profile.iterations > 2 else e2e for i in range(profile.iterations)]
    kernels = sum(row.count for row in rows)
    noise = [DroppedRow(2 + i, "noise", i + 1, "ReduceMax", "ReduceMax_1", "10240,12288", Decimal("400.25"))
             for i in range(profile.iterations)]  # fmt: skip
    dropped = [*noise, *extra_dropped]
    dropped_us = sum((row.duration_us for row in dropped), Decimal(0))
    e2e = Decimal(median(totals)) if totals else e2e
    fields: dict[str, Any] = {
        "profile": profile,
        "output": OutputRecord(
            PROFILER_DIR,
            f"{PROFILER_DIR}/ASCEND_PROFILER_OUTPUT/kernel_details.csv",
            "kernel_details",
            "the one capture that profile.json names",
            ["op_statistic.csv"],
            "Level1",
        ),
        "status": Status.OK,
        "e2e_us": e2e,
        "all_rows_us": sum(totals, Decimal(0)) + dropped_us,
        "dropped_us": dropped_us,
        "iterations": [IterationTotal(i, i + 1, kernels, total, total * 2, total) for i, total in enumerate(totals)],
        "device_total": spread(*totals or [e2e]),
        "device_span": spread(*[total * 2 for total in totals] or [e2e]),
        "host_wall": spread("301.5", "300", "303"),
        "profiled_wall": spread("402", "400", "404"),
        "busy_share": 0.5,
        "ops": rows,
        "kernels": [KernelRow(row.op, f"{row.op}_1", row.core, "", row.count, row.mean_us) for row in rows],
        "pipes": list(pipes),
        "dropped": dropped,
        "cross_check": CrossCheck("op_statistic.csv", True, Decimal("1569.275"), Decimal("1569.275"), ""),
        "attribution": "by Step Id, then by the noise kernel's type and input shapes",
        "warnings": [],
    }
    return PerfRecord(**{**fields, **changes})


def failure_record(operator: str = "softmax_golden", case: str = "smoke", **changes: Any) -> FailureRecord:
    """A golden that raised on its first iteration."""
    fields: dict[str, Any] = {
        "operator": operator,
        "case": case,
        "key": "fedcba9876543210",
        "step": "profile",
        "status": Status.GOLDEN_FAILED,
        "message": "Golden function crashed on iteration 0: IndexError: index 7 is out of range",
        "advice": "",
        "log": f"logs/profile/{operator}/{case}.log",
        "command": f"python -m scripts.profile {operator}/{case}",
    }
    return FailureRecord(**{**fields, **changes})
