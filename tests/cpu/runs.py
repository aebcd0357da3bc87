"""Real measurements of small goldens on this processor, in this process, and kernels seen by a profiler of our own."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity

from scripts import artifacts, kernel_table, key, locate_output, make_inputs, measure, profile, tensors
from scripts.artifacts import OutputRecord, ProfileRecord
from scripts.cases import Case, Settings
from scripts.devices import identity, torch_events
from scripts.kernel_table import KernelTable
from scripts.sources import open_source

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = Path(__file__).with_name("goldens.py")
SETTINGS = Settings(device="cpu", warmup=2, iterations=3, noise_mib=1 / 16, keep_inputs=True)


@dataclass(frozen=True)
class Row:
    """What tells one kernel from another: its type and the shapes of its tensors."""

    op: str
    shapes: str


@dataclass(frozen=True)
class Measured:
    """One measured case."""

    folder: Path
    profile: ProfileRecord
    output: OutputRecord
    table: KernelTable

    def rows(self) -> list[tuple[int, Row]]:
        """(Step Id, row) of the whole capture, in order of time."""
        table = self.table
        return [(table.step_id[i], Row(table.op[i], table.input_shapes[i] or "")) for i in table.in_time]


def case(name: str, golden: Path = GOLDENS, **settings: object) -> Case:
    """The case of `<name>_golden` in the tests' golden file."""
    return Case(
        operator=f"{name}_golden",
        case=name,
        golden=str(golden),
        function=f"{name}_golden",
        mode="B",
        arguments=(),
        settings=replace(SETTINGS, **settings),
    )


def run(wanted: Case, folder: Path) -> Measured:
    """Draw, measure and locate, as the workflow's steps do."""
    roots = (ROOT,)
    wanted_key = key.key(key.case_digest(wanted, Path(wanted.golden), roots), identity.resolve("cpu"))
    make_inputs.run(wanted, wanted_key, folder, roots)
    with patch.dict(os.environ, GOLDENPROF_LOCK_DIR=str(folder / "locks")):  # no time matters here: wait for nobody
        profile.run(folder, roots, lambda phase: None)
    locate_output.run(folder)
    output = artifacts.read(folder / "output.json", OutputRecord)
    table = kernel_table.read(folder / output.source, output.source_kind)
    return Measured(folder, artifacts.read(folder / "profile.json", ProfileRecord), output, table)


def golden_alone(wanted: Case, folder: Path) -> list[Row]:
    """The kernels of one call of the golden, in order, from a profile that holds nothing else."""
    args, kwargs = tensors.load(folder / "inputs.pt")
    function = open_source(wanted, (ROOT,)).function(torch.device("cpu"))
    return _profiled(lambda: function(*args, **kwargs))


def noise_alone(profile_record: ProfileRecord) -> list[Row]:
    """The kernels of one noise, from a profile that holds nothing else."""
    buffer = measure.cpu_noise(profile_record.noise.shape[0])
    return _profiled(lambda: torch.max(buffer))


def _profiled(call: object) -> list[Row]:
    with torch.no_grad(), torch.profiler.profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        call()
    operators = torch_events.operators(profiler.profiler.kineto_results.events())
    names = torch_events.kernel_names(operators)
    return [
        Row(op.name, ";".join(",".join(map(str, shape)) for shape in op.shapes))
        for op in sorted(operators, key=lambda op: op.start_ns)
        if op.name in names
    ]
