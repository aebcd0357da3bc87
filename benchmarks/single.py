"""What single steps cost, against doing the same by hand."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from benchmarks import kernel_table as files
from benchmarks.lines import Line, fastest

MIB = 2**20
IMPORTS = "from scripts import workflow_steps"
ONE_STEP = """
import json, resource, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from benchmarks.single import parse
seconds = parse(Path(sys.argv[1]))
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def parsing(rows: int, slow: bool = False) -> Iterator[Line]:
    """kernel_details.csv with 47 columns to sums per operator; `slow`: our side is the loop, too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel_details.csv")
        files.write(path, rows)
        bare = fastest(lambda: files.bare(path), 3)
        loop = fastest(lambda: by_dict_reader(path), 1)
        ours, memory = (loop, 0.0) if slow else _in_a_process(path)
    yield Line(f"{rows:,} kernels × {len(files.HEADER)} columns, against csv.DictReader", ours, loop, "s", 8, True)
    yield Line(f"{rows:,} kernels, against a bare pyarrow read", ours, bare, "s", 2)
    if not slow:
        yield Line(f"{rows:,} kernels, memory of the process, against 1500 MB", memory * MIB / 1e6, 1500, "MB", 1)


def _in_a_process(path: Path) -> tuple[float, float]:
    """(seconds of the fastest of three, MiB of the whole process at its largest)."""
    import json

    root = str(Path(__file__).resolve().parents[1])
    command = [sys.executable, "-c", ONE_STEP.format(root=root), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, memory = json.loads(done.stdout)
    return seconds, memory


def parse(path: Path) -> float:
    """Seconds of the fastest of three readings with the sums per operator."""
    import numpy as np

    from scripts import kernel_table

    def work() -> dict[str, Decimal]:
        table = kernel_table.read(path, "kernel_details")
        totals = np.zeros(len(table.op.values), np.int64)
        np.add.at(totals, table.op.codes, table.duration_ps)
        return {op: Decimal(int(total)) for op, total in zip(table.op.values, totals, strict=True)}

    return fastest(work, 3)


def by_dict_reader(path: Path) -> dict[str, Decimal]:
    """The same sums, row by row."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            totals[row["Type"]] += Decimal(row["Duration(us)"])
    return totals


def inputs(mib: int, slow: bool = False) -> Iterator[Line]:
    """make_inputs of one bfloat16 tensor against drawing, hashing and saving it by hand; `slow`: made twice."""
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

        def by_hand() -> None:
            x = torch.randn(elements, generator=torch.Generator().manual_seed(0), dtype=torch.bfloat16)
            torch.save({"args": [], "kwargs": {"x": x}}, Path(folder, "by_hand.pt"))

        theirs = fastest(by_hand, 2)
        mine = fastest(ours, 2)
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
