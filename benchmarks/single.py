"""What single steps cost, against doing the same by hand."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

from benchmarks import kernel_table as files
from benchmarks.lines import Line, fastest

MIB = 2**20
MOST_MB = 1500
IMPORTS = "from scripts import workflow_steps"
ONE_STEP = """
import json, resource, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from benchmarks.single import parse
seconds = parse(Path(sys.argv[1]))
print(json.dumps([*seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def parsing(rows: int, slow: bool = False) -> Iterator[Line]:
    """kernel_details.csv to perf.json, against a loop that does its sums; `slow`: our side is the loop, too."""
    with tempfile.TemporaryDirectory() as folder:
        case_dir = Path(folder)
        path = files.write_case(case_dir, rows)
        loop = fastest(lambda: by_dict_reader(path), 2)
        ours, bare, memory = _in_a_process(case_dir)
        if slow:
            ours, memory = loop, 2 * MOST_MB * 1e6 / MIB
    yield Line(f"{rows:,} kernels × {len(files.HEADER)} columns, against csv.DictReader", ours, loop, "s", 8, True)
    yield Line(f"{rows:,} kernels, against a bare pyarrow read", ours, bare, "s", 2)
    what = f"{rows:,} kernels, memory of the process, against {MOST_MB} MB"
    yield Line(what, memory * MIB / 1e6, MOST_MB, "MB", 1)


def _in_a_process(case_dir: Path) -> tuple[float, float, float]:
    """(seconds of parse_csv, seconds of a bare reading, MiB of the whole process at its largest)."""
    import json

    root = str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-c", ONE_STEP.format(root=root), str(case_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ours, bare, memory = json.loads(done.stdout)
    return ours, bare, memory


def parse(case_dir: Path) -> tuple[float, float]:
    """Seconds from the table to perf.json, and of a bare reading: each the fastest of five, in turns."""
    from scripts import parse_csv

    (path,) = case_dir.rglob("kernel_details.csv")
    turns = [(fastest(lambda: parse_csv.run(case_dir), 1), fastest(lambda: files.bare(path), 1)) for _ in range(5)]
    return min(ours for ours, _ in turns), min(bare for _, bare in turns)


def by_dict_reader(path: Path) -> dict[tuple[str, str], list[Decimal]]:
    """The same sums row by row: per step and op type count, total and core time of every pipe; spans; kernels apart."""
    totals: dict[tuple[str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0)])
    counts: dict[tuple[str, str], int] = defaultdict(int)
    kernels: dict[tuple[str, str, str, str], list[Decimal]] = defaultdict(list)
    spans: dict[str, tuple[Decimal, Decimal]] = {}
    pipes: dict[tuple[str, str], float] = defaultdict(float)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            step, op = row["Step Id"], row["Type"]
            start, duration = Decimal(row["Start Time(us)"].strip()), Decimal(row["Duration(us)"])
            totals[step, op][0] += duration
            counts[step, op] += 1
            kernels[op, row["Name"], row["Accelerator Core"], row["Input Shapes"]].append(duration)
            first, last = spans.get(step, (start, start))
            spans[step] = min(first, start), max(last, start + duration)
            for column in files.TIMES:
                pipes[op, column] += float(row[column])
    for durations in kernels.values():
        durations.sort()
    return totals


def inputs(mib: int, slow: bool = False) -> Iterator[Line]:
    """make_inputs of one bfloat16 tensor against drawing and saving it by hand; `slow`: made twice."""
    import torch

    from scripts import make_inputs
    from scripts.cases import Argument, Case, Settings, TensorSpec

    elements = mib * MIB // 2
    spec = TensorSpec((elements,), "bfloat16", "randn")
    with tempfile.TemporaryDirectory() as folder:
        golden = Path(folder, "double_golden.py")
        golden.write_text("def double_golden(x):\n    return x * 2\n")
        case = Case("double_golden", "bench", str(golden), None, "A", (Argument("x", (spec,)),), Settings(device="cpu"))

        def ours() -> None:
            for k in range(1 + slow):
                make_inputs.run(case, "0-cpu-0", Path(folder, f"ours{k}"), (Path(folder),))

        def turn() -> tuple[float, float]:
            return alone(ours), alone(by_hand)

        def alone(work: Callable[[], None]) -> float:
            taken = fastest(work, 1)
            for path in Path(folder).rglob("*.pt"):
                path.unlink()
            os.sync()
            return taken

        def by_hand() -> None:
            x = torch.randn(elements, generator=torch.Generator().manual_seed(0), dtype=torch.bfloat16)
            torch.save({"args": [], "kwargs": {"x": x}}, Path(folder, "by_hand.pt"))

        # In turns, each with its file gone before the next: what waits for the disk slows down the next writer.
        mine, theirs = (min(both) for both in zip(*(turn() for _ in range(3)), strict=True))
    yield Line(f"make_inputs of {mib} MiB of bfloat16, against drawing and saving by hand", mine, theirs, "s", 1.3)


def start_up(slow: bool = False) -> Iterator[Line]:
    """Importing what the Snakemake process needs of ours; `slow`: torch too."""
    root = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": root}

    def seconds(code: str) -> float:
        timed = "import time, snakemake.io, snakemake.exceptions; t = time.perf_counter(); "
        timed += f"{code}; print(time.perf_counter() - t)"
        runs = [
            subprocess.run([sys.executable, "-c", timed], env=environment, capture_output=True, text=True, check=True)
            for _ in range(3)
        ]
        return min(float(run.stdout) for run in runs)

    mine = seconds(IMPORTS + ("; import torch" if slow else ""))
    yield Line("importing our part of the Snakemake process, against 0.7 s", mine, 0.7, "s", 1)
