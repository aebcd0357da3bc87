"""Reading one million kernels against a bare pyarrow reading of the same columns, and a small file.

Run from the repository: `python -m benchmarks.kernel_table [rows]`. Prints seconds, their ratio and the peak memory.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from benchmarks.lines import fastest
from scripts import artifacts, kernel_csv, kernel_table
from scripts.artifacts import DeviceInfo, Noise, OutputRecord, ProfileRecord

PIPES = [
    *(f"aic_{pipe}_{what}" for pipe in ("mac", "scalar", "mte1", "mte2", "fixpipe") for what in ("time(us)", "ratio")),
    *(f"aiv_{pipe}_{what}" for pipe in ("vec", "scalar", "mte2", "mte3") for what in ("time(us)", "ratio")),
]
HEADER = [
    *("Step Id", "Device_id", "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core"),
    *("Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim", "Mix Block Dim", "HF32 Eligible"),
    *("Input Shapes", "Input Data Types", "Input Formats", "Output Shapes", "Output Data Types", "Output Formats"),
    *("Context ID", "aicore_time(us)", "aic_total_cycles", "aic_icache_miss_rate", "aiv_time(us)"),
    *("aiv_total_cycles", "aiv_icache_miss_rate", *PIPES, "cube_utilization(%)"),
]
STEPS = 10
TIMES = [column for column in HEADER if column.endswith("_time(us)")]
TYPES = ("MatMulV3", "Add", "Mul", "Cast", "RmsNorm", "SoftmaxV2", "ReduceSum", "Slice", "Transpose", "Exp")


def write(path: Path, rows: int) -> None:
    """A Level1 kernel_details.csv of an Atlas A2 with all 47 columns."""
    pmu = ",".join(["0.125"] * (len(HEADER) - 22))
    with path.open("w", newline="") as file:
        file.write(",".join(HEADER) + "\r\n")
        for k in range(rows):
            op, start = TYPES[k % 10], 1_764_246_877_074_017_600 + 20_001 * k
            shapes = f'"""{64 * (k % 40 + 1)},4096;64"""'
            file.write(
                f"{k * STEPS // rows},0,4294967295,{k % 65536},2,aclnn{op}_{op}AiCore_{op},{op},dynamic,AI_VECTOR_CORE,"
                f"{start // 1000}.{start % 1000:03d}\t,{k % 977}.{k % 1000:03d},1.090000,40,0,NO,"
                f"{shapes},FLOAT;FLOAT,ND;ND,{shapes},FLOAT,ND,N/A,{pmu}\r\n"
            )


def write_case(case_dir: Path, rows: int) -> Path:
    """A case that only has to be parsed, with `rows` kernels in STEPS iterations; returns its table."""
    output = Path("bench_1_20260101000000000_ascend_pt", "ASCEND_PROFILER_OUTPUT", "kernel_details.csv")
    (case_dir / output).parent.mkdir(parents=True)
    write(case_dir / output, rows)
    artifacts.write(case_dir / "profile.json", _profile(output.parts[0]))
    record = OutputRecord(
        output.parts[0], output.as_posix(), "kernel_details", "written for this benchmark", [], "Level1"
    )
    artifacts.write(case_dir / "output.json", record)
    return case_dir / output


def _profile(folder: str) -> ProfileRecord:
    return ProfileRecord(
        operator="bench_golden",
        case="bench",
        key="0-npu-0",
        device=DeviceInfo("npu:0", "npu", "Ascend910B", "0"),
        started_at="unknown",
        profiler_dir=folder,
        iterations=STEPS,
        warmup=0,
        cache="unknown",
        noise=Noise(0.0, (), "", ()),
        restored=[],
        regions=[],
        inputs=[],
        scalars={},
        outputs=[],
        host_wall_us=[],
        profiled_wall_us=[],
        versions={},
        environment={},
        settings={},
        command="",
    )


def bare(path: Path) -> pa.Table:
    """pyarrow's own reading of the columns that kernel_csv uses, with types inferred."""
    columns = list(kernel_csv.columns(path).values())
    return pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(include_columns=columns))


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder, "large.csv"), Path(folder, "small.csv")
        write(large, rows)
        write(small, 40)
        ours = fastest(lambda: kernel_table.read(large, "kernel_details"), 3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        theirs = fastest(lambda: bare(large), 3)
        little = fastest(lambda: kernel_table.read(small, "kernel_details"), 50)
    print(f"{rows} rows x {len(HEADER)} columns: {ours:.2f} s, bare pyarrow {theirs:.2f} s, ratio {ours / theirs:.2f}")
    print(f"peak memory {peak:.0f} MiB; 40 rows: {little * 1000:.2f} ms")


if __name__ == "__main__":
    main()
