"""Hand-made captures in which every row's rule and iteration is known."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from scripts import artifacts
from scripts.artifacts import DeviceInfo, Noise, OutputRecord, ProfileRecord, Region

NOISE_SHAPE = (96, 1024, 1024)
NOISE_TEXT = "96,1024,1024;3"
EPOCH_NS = 1_764_246_877_074_017_600
FIRST_STEP = 13
CAPTURE = "host_1_20260101000000000_ascend_pt"


@dataclass(frozen=True)
class Launch:
    """One kernel: what a row says of it but for its time, with its label."""

    op: str
    shapes: str = "64,64"
    core: str = "AI_VECTOR_CORE"
    name: str = ""
    us: str = "5.125"
    rule: str = "golden"
    iteration: int = -1
    step: int | None = None
    gap_us: str = "2.5"


def launch(op: str, shapes: str = "64,64", **changes: Any) -> Launch:
    """A launch whose name is built as aclnn builds it."""
    return replace(Launch(op, shapes, name=f"aclnn{op}_{op}AiCore_{op}"), **changes)


NOISE = launch("ReduceMax", NOISE_TEXT, us="310.04", rule="noise")
RESTORE = launch("TensorMove", "64,64", name="aclnnInplaceCopy_TensorMoveAiCore_TensorMove", us="3.02", rule="restore")

Golden = Callable[[int], Sequence[Launch]]


@dataclass
class Trace:
    """Rows in order of time, and the profile.json that goes with them."""

    rows: list[Launch]
    profile: ProfileRecord
    with_steps: bool = True
    starts_ns: list[int] = field(default_factory=list)

    @property
    def rules(self) -> list[str]:
        return [row.rule for row in self.rows]

    @property
    def iterations(self) -> list[int]:
        """Iteration of each golden row, -1 for the others."""
        return [row.iteration if row.rule == "golden" else -1 for row in self.rows]

    def golden_us(self, iteration: int) -> Decimal:
        return sum(
            (Decimal(row.us) for row in self.rows if row.rule == "golden" and row.iteration == iteration), Decimal()
        )

    def write(self, case_dir: Path, order: Sequence[int] | None = None, statistic: bool = True) -> Path:
        """Make `case_dir` with profile.json, output.json and the capture; `order` shuffles the file's rows."""
        folder = case_dir / CAPTURE / "ASCEND_PROFILER_OUTPUT"
        folder.mkdir(parents=True)
        header = ["Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim"]
        header = ["Step Id"] * self.with_steps + header + ["Input Shapes"]
        with (folder / "kernel_details.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for row in range(len(self.rows)) if order is None else order:
                writer.writerow(self._cells(row))
        if statistic:
            self._write_statistic(folder / "op_statistic.csv")
        artifacts.write(case_dir / "profile.json", self.profile)
        source = f"{CAPTURE}/ASCEND_PROFILER_OUTPUT/kernel_details.csv"
        artifacts.write(case_dir / "output.json", OutputRecord(CAPTURE, source, "kernel_details", "", [], ""))
        return folder / "kernel_details.csv"

    def _cells(self, index: int) -> list[Any]:
        row, start = self.rows[index], self.starts_ns[index]
        shapes = row.shapes if row.shapes == "N/A" else f'"{row.shapes}"'
        step = ["" if row.step is None else row.step] * self.with_steps
        stamp = f"{start // 1000}.{start % 1000:03d}\t"
        return [*step, row.name, row.op, row.core, stamp, row.us, "0", 40, shapes]

    def _write_statistic(self, path: Path) -> None:
        sums: dict[tuple[str, str], list[Decimal]] = {}
        for row in self.rows:
            if row.core not in ("COMMUNICATION", "HCCL"):
                sums.setdefault((row.op, row.core), []).append(Decimal(row.us))
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["OP Type", "Core Type", "Count", "Total Time(us)"])
            writer.writerows([op, core, len(us), sum(us)] for (op, core), us in sums.items())


def build(
    golden: Golden,
    iterations: int,
    *,
    restores: int = 0,
    with_steps: bool = True,
    leaked: Sequence[Launch] = (),
    noise: Launch | None = NOISE,
    device: str = "npu",
) -> Trace:
    """`iterations` of restores, noise, golden; `leaked` rows of the warm-up come first, in no step."""
    rows = [replace(row, rule="outside_steps" if with_steps else "before_noise") for row in leaked]
    for k in range(iterations):
        step = FIRST_STEP + k
        rows += [replace(RESTORE, iteration=k, step=step)] * restores
        if noise:
            rows.append(replace(noise, iteration=k, step=step))
        rows += [replace(row, iteration=k, step=step) for row in golden(k)]
    return timed(rows, profile(iterations, restores, noise is not None, device), with_steps)


def timed(rows: list[Launch], record: ProfileRecord, with_steps: bool = True) -> Trace:
    """Give every row its start, one after the other; regions get the host times of their golden rows."""
    starts, now = [], EPOCH_NS
    for row in rows:
        now += int(Decimal(row.gap_us) * 1000)
        starts.append(now)
        now += int(Decimal(row.us) * 1000)
    if record.device.kind != "npu":
        record.regions = [_region(rows, starts, region) for region in record.regions]
    return Trace(rows, record, with_steps, starts)


def _region(rows: list[Launch], starts: list[int], region: Region) -> Region:
    own = [
        (start, start + int(Decimal(row.us) * 1000))
        for row, start in zip(rows, starts, strict=True)
        if row.rule == "golden" and row.iteration == region.iteration
    ]
    return replace(region, start_ns=own[0][0] - 1500, end_ns=own[-1][1] + 500) if own else region


def profile(iterations: int, restores: int = 0, noise: bool = True, device: str = "npu") -> ProfileRecord:
    """A profile.json of a case with `iterations` steps from FIRST_STEP on."""
    return ProfileRecord(
        operator="softmax_golden",
        case="perf_p0_small",
        key="0123456789abcdef",
        device=DeviceInfo(device, f"{device}:0", "Ascend910B3", "0"),
        started_at="2026-01-01T00:00:00+00:00",
        profiler_dir=CAPTURE,
        iterations=iterations,
        warmup=3,
        cache="cold",
        noise=Noise(384.0, NOISE_SHAPE, "float32", ("ReduceMax",) if noise else ()),
        restored=[f"args[{k}]" for k in range(restores)],
        regions=[Region(k, FIRST_STEP + k, 0, 0) for k in range(iterations)],
        inputs=[],
        scalars={},
        outputs=[],
        host_wall_us=[Decimal(100 + k) for k in range(iterations)],
        profiled_wall_us=[],
        versions={},
        environment={},
        settings={},
        command="",
    )


def _softmax_with_amax(k: int) -> list[Launch]:
    ops = ("ReduceMax", "Sub", "Exp", "ReduceSum", "RealDiv")
    return [launch(op, "8,512;1", us=f"{7 + j}.{k:03d}") for j, op in enumerate(ops)]


def _max_of_the_noise_shape(k: int) -> list[Launch]:
    return [launch("Add", NOISE_TEXT, us=f"90.{k:03d}"), launch("ReduceMax", NOISE_TEXT, us="309.9"), launch("Cast")]


def _max_of_the_noise_shape_first(k: int) -> list[Launch]:
    return [launch("ReduceMax", NOISE_TEXT, us=f"300.{k:03d}")] * 2 + [launch("Mul")]


def _only_the_noise_again(k: int) -> list[Launch]:
    return [launch("ReduceMax", NOISE_TEXT, us=f"310.{k:03d}")]


def _copies(k: int) -> list[Launch]:
    return [
        launch("TensorMove", name="aclnnInplaceCopy_TensorMoveAiCore_TensorMove", us=f"3.{k:03d}"),
        launch("MatMulV2", "64,64;64,64", core="AI_CORE", us="40.25"),
        launch("ViewCopy", "64,64;2;2;1", us="6.5"),
    ]


def _ends_in_the_restore_s_copy(k: int) -> list[Launch]:
    return [launch("Mul", us=f"4.{k:03d}"), replace(RESTORE, rule="golden")]


def _casts(k: int) -> list[Launch]:
    return [launch("Cast", us=f"2.{k:03d}"), launch("RmsNorm"), launch("Cast", us="2.2")]


def _randn(k: int) -> list[Launch]:
    normal = "aclnnInplaceNormal_DSARandomNormal_DSARandomNormal"
    return [
        launch("DSARandomNormal", "N/A", core="DSA_SQE", name=normal, us=f"55.{k:03d}"),
        launch("Cast", name="aclnnInplaceNormal_CastAiCore_Cast"),
        launch("Add"),
    ]


def _clones(k: int) -> list[Launch]:
    return [launch("TensorMove", us=f"3.{k:03d}")] * 3 + [launch("Add")]


def _ai_cpu_beside_mix(k: int) -> list[Launch]:
    """PyPTO: two kinds of rows of one launch, which overlap in time."""
    return [
        launch("PyPTO", "N/A", core="AI_CPU", name="pypto_attention", us=f"80.{k:03d}"),
        launch("PyPTO", "N/A", core="MIX_AIC", name="pypto_attention", us="78.5", gap_us="-79"),
    ]


def _graph_names_that_count(k: int) -> list[Launch]:
    return [
        launch("Conv2D", "1,3,8,8", core="AI_CORE", name=f"Conv2D{4 * k + 1}", us=f"30.{k:03d}"),
        launch("Cast", name=f"trans_Cast_{2 * k}"),
        launch("MemSet", "N/A", name=f"NonZero{k}_MemSet"),
    ]


def _communication(k: int) -> list[Launch]:
    reduce = launch("hcom_allReduce_", "N/A", core="COMMUNICATION", name=f"hcom_allReduce__170_{k}_1", us="500.5")
    return [launch("MatMulV2", us=f"40.{k:03d}"), replace(reduce, rule="communication"), launch("Add")]


GOLDENS: dict[str, Golden] = {
    "softmax with amax": _softmax_with_amax,
    "max of the noise's shape": _max_of_the_noise_shape,
    "max of the noise's shape, twice and first": _max_of_the_noise_shape_first,
    "nothing but a max of the noise's shape": _only_the_noise_again,
    "copies": _copies,
    "a copy like the restore's at the end": _ends_in_the_restore_s_copy,
    "casts": _casts,
    "randn": _randn,
    "clones": _clones,
    "AI_CPU beside MIX_AIC": _ai_cpu_beside_mix,
    "graph names that count up": _graph_names_that_count,
    "communication": _communication,
}
# What a warm-up that was not synchronised leaves at the head of the window.
LEAK = (launch("ReduceMax", "8,512;1", us="7.1"), launch("MatMulV2", us="41.9"))


def without(trace: Trace, *dropped: int) -> Trace:
    """The trace as a profiler that lost some rows would have written it."""
    kept = [k for k in range(len(trace.rows)) if k not in {d % len(trace.rows) for d in dropped}]
    return replace(trace, rows=[trace.rows[k] for k in kept], starts_ns=[trace.starts_ns[k] for k in kept])


def drop_every_reduce_max_us(trace: Trace) -> Decimal:
    """What is left, over all iterations, for a tool that takes every ReduceMax for noise."""
    return sum((Decimal(row.us) for row in trace.rows if row.op != "ReduceMax"), Decimal())


def drop_first_reduce_max_us(trace: Trace) -> Decimal:
    """What is left, over all iterations, for a tool that takes the first ReduceMax alone for noise."""
    first = next((k for k, row in enumerate(trace.rows) if row.op == "ReduceMax"), None)
    return sum((Decimal(row.us) for k, row in enumerate(trace.rows) if k != first), Decimal())
