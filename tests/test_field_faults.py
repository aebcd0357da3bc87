"""The faults that tools of this kind are known for, each with its tests: on real measurements where there can be."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch

from scripts import artifacts, attribution, cases_file, cross_check, locate_output, measure, names, parse_csv, report
from scripts.artifacts import OutputRecord, PerfRecord
from scripts.attribution import GOLDEN
from scripts.devices.identity import resolve
from scripts.devices.opening import open_device
from scripts.errors import CaseFailure, ConfigError
from scripts.report import status_detail
from scripts.status import Status
from tests import traces
from tests.cpu import runs
from tests.cpu.runs import Measured

ROOT = Path(__file__).resolve().parent.parent


def measured(name: str, folder: Path, **settings: object) -> tuple[Measured, PerfRecord]:
    """A real measurement of a small golden on this processor, and its numbers."""
    found = runs.run(runs.case(name, **settings), folder)
    return found, parse_csv.parse(folder)


# 1. One variant drops only the first ReduceMax, the other every one.


@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_fault_1_a_golden_keeps_its_own_maximum_and_every_noise_is_dropped(iterations: int, tmp_path: Path) -> None:
    found, perf = measured("max_of_the_noises_shape", tmp_path, iterations=iterations)
    maxima = sum(row.op == "aten::max" for row in (row for _, row in found.rows()))
    assert maxima == 3 * iterations, "two of the golden's and one noise in each iteration"
    assert {row.op: row.count for row in perf.ops}["aten::max"] == 2
    assert sum(row.rule == "noise" and row.op == "aten::max" for row in perf.dropped) == iterations


# 2. Every TensorMove is dropped, while the tool's own clones are charged to the golden.


def test_fault_2_the_goldens_copies_count_and_the_restores_do_not(tmp_path: Path) -> None:
    _, copies = measured("copies", tmp_path / "copies")
    assert {row.op: row.count for row in copies.ops} == {"aten::copy_": 2}
    found, writes = measured("overwrites_by_copy", tmp_path / "writes")
    assert found.profile.restored == ["x"]
    assert {row.op: row.count for row in writes.ops}["aten::copy_"] == 1
    restores = [row for row in writes.dropped if row.op == "aten::copy_"]
    assert len(restores) == found.profile.iterations
    assert {row.rule for row in restores} == {"before_noise"} or {row.rule for row in restores} == {"restore"}


# 3. E2E and counts are summed over iterations.


def test_fault_3_three_iterations_do_not_look_three_times_slower(tmp_path: Path) -> None:
    _, once = measured("matmul", tmp_path / "once", iterations=1)
    _, thrice = measured("matmul", tmp_path / "thrice", iterations=3)
    assert [(row.op, row.count) for row in sorted(once.ops, key=lambda row: row.op)] == [
        (row.op, row.count) for row in sorted(thrice.ops, key=lambda row: row.op)
    ]
    totals = sorted(total.device_total_us for total in thrice.iterations)
    assert thrice.e2e_us == totals[1] == sum(row.total_us for row in thrice.ops)


# 4. "480 MB" of noise are 503,316,480 elements, drawn anew in every iteration.


def test_fault_4_the_noise_has_the_bytes_that_are_stated_and_is_drawn_once(tmp_path: Path) -> None:
    found, _ = measured("one_kernel", tmp_path, noise_mib=2.0)
    noise = found.profile.noise
    assert noise.mib == 2.0
    assert np.prod(noise.shape) * torch.float32.itemsize == 2 * 2**20
    assert not [row for _, row in found.rows() if re.search("normal|randn|uniform", row.op)], (
        "nothing is drawn in a step"
    )
    cold = measure.noise_of(runs.SETTINGS.__class__(), open_device(resolve("cpu")))
    assert np.prod(cold.shape) * 4 == 480 * 2**20


# 5. The warm-up is documented and not done; nothing is synchronised before the region.


def test_fault_5_the_warm_up_is_done_outside_and_the_golden_stands_between_two_synchronisations(tmp_path: Path) -> None:
    happened: list[str] = []

    class Watched:
        """The CPU, writing down when it is synchronised."""

        torch_device = torch.device("cpu")

        def synchronize(self) -> None:
            happened.append("synchronise")

    def golden(x: torch.Tensor) -> torch.Tensor:
        happened.append("golden")
        return x + 1

    noise = artifacts.Noise(0.1, (4099,), "float32", ("aten::max",))
    watched = measure.prepare(Watched(), golden, (torch.ones(3),), {}, ["x"], noise)
    watched.warm_up(3)
    assert happened == ["golden", "synchronise"] * 3
    happened.clear()
    watched.iterate(0)
    assert happened == ["synchronise", "golden", "synchronise"]
    found, perf = measured("more_every_time", tmp_path, warmup=4, iterations=1)
    assert found.profile.warmup == 4
    calls_before = 1 + 1 + 4 + 1  # the check, the counted call, the warm-ups and the unprofiled pass
    assert {row.op: row.count for row in perf.ops}["aten::add"] == calls_before + 1, "each call adds once more"


# 6. The newest csv by time stamp may be a stale one; an interrupted run can be read as the new one.


def test_fault_6_a_stale_capture_is_never_taken_for_the_new_one(tmp_path: Path) -> None:
    found, _ = measured("one_kernel", tmp_path)
    own = found.profile.profiler_dir
    shutil.copytree(tmp_path / own, tmp_path / "other_1_20300101000000000_ascend_pt")
    with pytest.raises(CaseFailure, match="holds 2 captures where one is expected") as caught:
        locate_output.locate(tmp_path)
    assert caught.value.status is Status.MISSING_OUTPUT
    shutil.rmtree(tmp_path / own)
    with pytest.raises(CaseFailure, match=re.escape(own)):
        locate_output.locate(tmp_path)


# 7. "Path A" and "path B" are the same arithmetic, so that the cross-check cannot fail.


def test_fault_7_the_cross_check_is_of_another_source_and_can_fail(tmp_path: Path) -> None:
    found, perf = measured("matmul", tmp_path)
    assert perf.cross_check.agrees is True
    assert perf.cross_check.source.startswith("op_statistic")
    details = found.table.paths[0]
    lines = details.read_text().splitlines(keepends=True)
    details.write_text("".join(lines[:-1]))  # a row of the last golden is lost
    with pytest.raises(CaseFailure) as caught:
        cross_check.check(parse_csv.kernel_table.read(details, "kernel_details"))
    assert caught.value.status is Status.INCOMPLETE


# 8. An empty csv gives 0.0us and exit 0; no device is an invisible skip; one crash kills all; names are paths.


def test_fault_8_nothing_measured_is_no_number_and_no_success(tmp_path: Path) -> None:
    found, _ = measured("one_kernel", tmp_path)
    details = found.table.paths[0]
    details.write_text(details.read_text().splitlines(keepends=True)[0])
    with pytest.raises(CaseFailure) as caught:
        locate_output.locate(tmp_path)
    assert caught.value.status.exit_code != 0
    assert resolve("npu").problem or resolve("npu").model, "a device is there, or it is said that it is not"
    trace = traces.build(lambda k: [], 3)
    trace.write(tmp_path / "views")
    with pytest.raises(CaseFailure) as caught:
        parse_csv.parse(tmp_path / "views")
    assert caught.value.status is Status.NO_KERNELS
    assert Status.DEVICE_UNAVAILABLE.exit_code != 0 and Status.NO_KERNELS.exit_code != 0
    for name in ("../x", "a/b", "", ".hidden"):
        assert names.problem(name)
    twice = "operators:\n  a: {golden: g.py, mode: B, cases: {x: {}, x: {}}}\n"
    (tmp_path / "cases.yaml").write_text(twice)
    with pytest.raises(ConfigError, match="x"):
        cases_file.load(tmp_path / "cases.yaml", root=tmp_path)


def test_fault_8_a_crash_ends_its_own_process_alone() -> None:
    """The workflow's tests run a sweep with one; here: a golden is never called in the process that sweeps."""
    code = "import sys; from scripts import workflow_steps; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


# 9. No seed, versions, spread, JSON, kwargs or list tensors in the shapes; wrong paths; in-place operators drift.


def test_fault_9_a_result_says_what_it_is_of(tmp_path: Path) -> None:
    _, perf = measured("list", tmp_path, seed=7)
    artifacts.write(tmp_path / "perf.json", perf)
    raw = json.loads((tmp_path / "perf.json").read_text())
    assert raw["profile"]["settings"]["seed"] == 7
    assert raw["profile"]["versions"]["torch"] == torch.__version__
    assert raw["device_total"]["n"] == 3
    text = report.render(artifacts.read(tmp_path / "perf.json", PerfRecord))
    assert "[(3, 71), (5, 71)]" in text, "the tensors of a list"
    assert f"prof/list_golden/list/{perf.profile.key}/" in text
    assert status_detail(perf).startswith("3 of 3 iterations")


def test_fault_9_an_in_place_golden_starts_every_iteration_from_the_same_inputs(tmp_path: Path) -> None:
    seen: list[float] = []

    def adds(x: torch.Tensor) -> torch.Tensor:
        seen.append(float(x[0]))
        x.add_(1)
        return x

    noise = artifacts.Noise(0.1, (4099,), "float32", ("aten::max",))
    found = measure.prepare(open_device(resolve("cpu")), adds, (torch.zeros(4),), {}, ["x"], noise)
    found.check()
    found.warm_up(2)
    for k in range(5):
        found.iterate(k)
    assert seen == [0.0] * 8


def test_the_tests_of_faults_measure_what_they_say(tmp_path: Path) -> None:
    """A guard for this file: the helper's numbers are those of the golden's rows and of nothing else."""
    found, perf = measured("matmul", tmp_path)
    rule = attribution.attribute(found.table, found.profile).rule
    own = found.table.total_us(rule == GOLDEN)
    assert own == sum((total.device_total_us for total in perf.iterations), Decimal(0))
    assert artifacts.read(tmp_path / "output.json", OutputRecord).others
