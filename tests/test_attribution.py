"""Every row of a labelled capture gets its rule and its iteration; what cannot be decided is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from scripts import attribution, kernel_table
from scripts.attribution import RULES, Attribution
from scripts.errors import CaseFailure
from scripts.kernels import Kernel, Kernels, stable_name
from scripts.status import Status
from tests import traces
from tests.traces import GOLDENS, LEAK, NOISE, NOISE_TEXT, RESTORE, Trace, build, launch, timed, without

CLOCKS = {"npu": "steps of the profiler", "cpu": "steps and the host's clock"}


def attributed(trace: Trace, folder: Path, order: list[int] | None = None) -> Attribution:
    path = trace.write(folder / "case", order)
    return attribution.attribute(kernel_table.read(path, "kernel_details"), trace.profile)


def failure(trace: Trace, folder: Path) -> CaseFailure:
    with pytest.raises(CaseFailure) as caught:
        attributed(trace, folder)
    return caught.value


def assert_labels(found: Attribution, trace: Trace) -> None:
    assert [RULES[code] for code in found.rule] == trace.rules
    golden = [k if rule == "golden" else -1 for k, rule in zip(found.iteration, trace.rules, strict=True)]
    assert golden == trace.iterations


@pytest.mark.parametrize("restores", [0, 2])
@pytest.mark.parametrize("with_steps", [True, False], ids=["step ids", "no step ids"])
@pytest.mark.parametrize("iterations", [1, 3, 10])
@pytest.mark.parametrize("name", GOLDENS)
def test_every_row_of_a_labelled_trace_is_right(
    name: str, iterations: int, with_steps: bool, restores: int, tmp_path: Path
) -> None:
    trace = build(GOLDENS[name], iterations, restores=restores, with_steps=with_steps)
    found = attributed(trace, tmp_path)
    assert_labels(found, trace)

    # what the two simple rules, "drop every ReduceMax" and "drop the first ReduceMax", would have made of it
    true_us = sum((trace.golden_us(k) for k in range(iterations)), Decimal())
    others = restores > 0 or name == "communication"
    loses_its_own = any(row.op == "ReduceMax" for row in GOLDENS[name](0))
    assert (traces.drop_every_reduce_max_us(trace) != true_us) == (loses_its_own or others)
    assert (traces.drop_first_reduce_max_us(trace) != true_us) == (iterations > 1 or others)


@pytest.mark.parametrize("iterations", [1, 3, 10])
@pytest.mark.parametrize("name", sorted(set(GOLDENS) - {"AI_CPU beside MIX_AIC"}))
def test_on_the_host_s_clock_the_regions_confirm_the_steps(name: str, iterations: int, tmp_path: Path) -> None:
    trace = build(GOLDENS[name], iterations, restores=1, device="cpu")
    assert trace.profile.regions[0].start_ns > 0
    assert_labels(attributed(trace, tmp_path), trace)


@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_a_warm_up_that_leaked_before_the_steps_is_outside(iterations: int, tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], iterations, leaked=LEAK)
    assert trace.rules[:2] == ["outside_steps"] * 2
    assert_labels(attributed(trace, tmp_path), trace)
    assert traces.drop_first_reduce_max_us(trace) != sum(trace.golden_us(k) for k in range(iterations))


def test_a_warm_up_that_leaked_into_the_first_step_is_before_its_noise(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3)
    leaked = [replace(row, step=traces.FIRST_STEP, iteration=0, rule="before_noise") for row in LEAK]
    trace = timed(leaked + trace.rows, trace.profile)
    assert_labels(attributed(trace, tmp_path), trace)


def test_a_step_that_was_not_measured_is_warm_up(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3)
    leaked = [replace(row, step=traces.FIRST_STEP - 1, rule="warm_up") for row in (NOISE, *LEAK)]
    trace = timed(leaked + trace.rows, trace.profile)
    assert_labels(attributed(trace, tmp_path), trace)


def test_without_step_ids_a_leak_is_known_by_the_iterations_that_agree(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3, leaked=LEAK, with_steps=False)
    assert_labels(attributed(trace, tmp_path), trace)


def test_without_step_ids_and_with_one_iteration_a_leak_cannot_be_told_from_a_lost_head(tmp_path: Path) -> None:
    error = failure(build(GOLDENS["casts"], 1, leaked=LEAK, with_steps=False), tmp_path)
    assert error.status is Status.INCOMPLETE
    assert "kernel_details.csv, line 2" in error.message


@pytest.mark.parametrize("with_steps", [True, False])
def test_the_order_of_rows_in_the_file_does_not_matter(with_steps: bool, tmp_path: Path) -> None:
    trace = build(GOLDENS["max of the noise's shape"], 3, restores=1, with_steps=with_steps)
    order = list(range(len(trace.rows)))
    random.Random(0).shuffle(order)
    found = attributed(trace, tmp_path, order)
    assert [RULES[code] for code in found.rule] == [trace.rules[k] for k in order]


@pytest.mark.parametrize("name", GOLDENS)
def test_a_lost_head_with_step_ids_is_incomplete(name: str, tmp_path: Path) -> None:
    """Of ten launches eight or nine are seen: the first ones are missing, the tail is whole."""
    trace = build(GOLDENS[name], 3)
    error = failure(without(trace, 0), tmp_path)
    assert error.status is Status.INCOMPLETE
    assert "noise" in error.message or "same kernels" in error.message


@pytest.mark.parametrize("name", GOLDENS)
@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_lost_head_without_step_ids_gives_no_number(name: str, lost: int, tmp_path: Path) -> None:
    trace = build(GOLDENS[name], 3, with_steps=False)
    # three of six rows that all look like the noise are also what three iterations without kernels leave
    expected = Status.NO_KERNELS if name.startswith("nothing but") and lost == 3 else Status.INCOMPLETE
    assert failure(without(trace, *range(lost)), tmp_path).status is expected


def test_without_step_ids_lookalikes_of_the_noise_are_warned_of(tmp_path: Path) -> None:
    found = attributed(build(GOLDENS["max of the noise's shape"], 3, with_steps=False), tmp_path)
    assert any("1 kernels per iteration that look like the noise" in warning for warning in found.warnings)


@pytest.mark.parametrize("with_steps", [True, False])
@pytest.mark.parametrize("restores", [0, 1])
def test_a_lost_tail_is_incomplete(with_steps: bool, restores: int, tmp_path: Path) -> None:
    trace = build(GOLDENS["a copy like the restore's at the end"], 3, with_steps=with_steps, restores=restores)
    assert failure(without(trace, -1), tmp_path).status is Status.INCOMPLETE


def test_a_missing_step_is_named(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3)
    last = [k for k, row in enumerate(trace.rows) if row.iteration == 2]
    error = failure(without(trace, *last), tmp_path)
    assert error.status is Status.INCOMPLETE
    assert "no rows of 15" in error.message


def test_a_step_short_without_step_ids_is_incomplete(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3, with_steps=False)
    last = [k for k, row in enumerate(trace.rows) if row.iteration == 2]
    assert "2 rows look like the noise" in failure(without(trace, *last), tmp_path).message


@pytest.mark.parametrize("with_steps", [True, False])
def test_a_golden_whose_kernels_vary_is_incomplete_with_the_difference(with_steps: bool, tmp_path: Path) -> None:
    def varying(k: int) -> list[traces.Launch]:
        return [launch("MatMulV2"), *[launch("Cast")] * (2 if k == 1 else 1), launch("Add")]

    error = failure(build(varying, 10, with_steps=with_steps), tmp_path)
    assert error.status is Status.INCOMPLETE
    assert "iteration 1" in error.message
    assert "Cast" in error.message


def test_a_golden_whose_shapes_vary_is_incomplete(tmp_path: Path) -> None:
    error = failure(build(lambda k: [launch("Add", f"{64 + k % 2},64")], 4), tmp_path)
    assert "shapes 65,64" in error.message


@pytest.mark.parametrize("with_steps", [True, False])
@pytest.mark.parametrize("iterations", [1, 3, 10])
def test_a_golden_without_kernels_is_no_kernels(iterations: int, with_steps: bool, tmp_path: Path) -> None:
    error = failure(build(lambda k: [], iterations, restores=1, with_steps=with_steps), tmp_path)
    assert error.status is Status.NO_KERNELS
    assert "_make_inputs()" in error.advice


def test_a_golden_of_communication_alone_is_no_kernels(tmp_path: Path) -> None:
    golden = [replace(row, iteration=0) for row in GOLDENS["communication"](0)[1:2]]
    error = failure(build(lambda k: golden, 2), tmp_path)
    assert error.status is Status.NO_KERNELS
    assert "2 communication" in error.message


def test_a_blank_step_id_in_the_middle_of_an_iteration_is_incomplete(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3)
    rows = list(trace.rows)
    rows[8] = replace(rows[8], step=None)
    error = failure(replace(trace, rows=rows), tmp_path)
    assert "blank" in error.message
    assert "line 10" in error.message


def test_a_blank_step_id_at_the_end_of_every_iteration_is_incomplete(tmp_path: Path) -> None:
    """All iterations agree with each other, and each lacks the kernel that the Step Ids lost."""
    trace = build(GOLDENS["casts"], 3)
    rows = [replace(row, step=None) if k % 4 == 3 else row for k, row in enumerate(trace.rows)]
    assert "Step Ids cannot be trusted" in failure(replace(trace, rows=rows), tmp_path).message


def test_a_restore_between_the_steps_is_outside_them(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3, restores=1)
    rows = [replace(row, step=None, rule="outside_steps") if row.op == "TensorMove" else row for row in trace.rows]
    trace = replace(trace, rows=rows)
    assert_labels(attributed(trace, tmp_path), trace)


def test_a_row_after_the_last_step_is_warned_of(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 2)
    trace = timed([*trace.rows, launch("Add", rule="outside_steps")], trace.profile)
    found = attributed(trace, tmp_path)
    assert_labels(found, trace)
    assert any("after the last one" in warning for warning in found.warnings)


def test_step_ids_that_are_all_blank_count_as_none(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3)
    rows = [replace(row, step=None) for row in trace.rows]
    found = attributed(replace(trace, rows=rows), tmp_path)
    assert_labels(found, trace)
    assert found.step_ids == (None, None, None)


def test_a_golden_row_outside_its_region_by_the_host_s_clock_is_incomplete(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3, device="cpu")
    regions = list(trace.profile.regions)
    regions[1] = replace(regions[1], end_ns=trace.starts_ns[6] - 2_000)
    trace.profile.regions = regions
    error = failure(trace, tmp_path)
    assert error.status is Status.INCOMPLETE
    assert "golden of iteration 1" in error.message
    assert "line 8" in error.message


def test_a_dropped_row_inside_a_region_by_the_host_s_clock_is_incomplete(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 1, device="cpu")
    region = trace.profile.regions[0]
    trace.profile.regions = [replace(region, start_ns=trace.starts_ns[0] - 5_000)]
    assert "taken for noise, but started inside" in failure(trace, tmp_path).message


def test_a_max_of_two_kernels_is_noise_as_far_as_the_host_s_clock_says(tmp_path: Path) -> None:
    trace = build(GOLDENS["nothing but a max of the noise's shape"], 3, device="cuda")
    rows = []
    for row in trace.rows:
        rows.append(row)
        if row.rule == "noise":
            rows.append(replace(row, us="2.0", gap_us="0.5"))
            rows.append(replace(row, us="1.0", op="Fill", shapes=""))
    trace = timed(rows, trace.profile)
    assert_labels(attributed(trace, tmp_path), trace)


def test_the_noise_is_its_type_and_its_shape(tmp_path: Path) -> None:
    """A reduction of another shape before the noise, and another op of the noise's shape, are not it."""
    trace = build(GOLDENS["casts"], 2)
    rows = []
    for row in trace.rows:
        if row.rule == "noise":
            rows.append(launch("ReduceMax", "3", rule="before_noise", step=row.step))
            rows.append(launch("Fill", NOISE_TEXT, rule="before_noise", step=row.step))
        rows.append(row)
    trace = timed(rows, trace.profile)
    assert_labels(attributed(trace, tmp_path), trace)


def test_a_noise_of_an_unknown_type_is_refused_with_what_was_found(tmp_path: Path) -> None:
    error = failure(build(GOLDENS["casts"], 2, noise=replace(NOISE, op="ReduceMaxWithIndex")), tmp_path)
    assert "rows with its shape are of type ReduceMaxWithIndex" in error.message


def level0(trace: Trace) -> Trace:
    return replace(trace, rows=[replace(row, op="N/A", core="N/A", shapes="N/A") for row in trace.rows])


@pytest.mark.parametrize("with_steps", [True, False])
def test_at_level0_the_noise_is_known_by_its_name(with_steps: bool, tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3, restores=1, with_steps=with_steps)
    found = attributed(level0(trace), tmp_path)
    assert_labels(found, trace)
    assert any("by its kernel's name, without its shape" in warning for warning in found.warnings)


def test_at_level0_a_golden_with_its_own_reduce_max_still_has_it_with_step_ids(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3)
    assert_labels(attributed(level0(trace), tmp_path), trace)


def test_types_without_shapes_are_enough_where_no_row_has_any(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3)
    bare = replace(trace, rows=[replace(row, shapes="N/A") for row in trace.rows])
    assert_labels(attributed(bare, tmp_path), trace)


def test_a_foreign_capture_without_noise_is_all_golden(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3, noise=None)
    trace.profile.regions = []
    found = attributed(trace, tmp_path)
    assert_labels(found, trace)
    assert found.step_ids == (13, 14, 15)


def test_a_foreign_capture_without_noise_and_steps_must_repeat(tmp_path: Path) -> None:
    trace = build(GOLDENS["softmax with amax"], 3, noise=None, with_steps=False)
    assert_labels(attributed(trace, tmp_path / "whole"), trace)
    assert "not 3 times the same" in failure(without(trace, 0, 1), tmp_path / "lost").message
    assert "iteration 1 differs" in failure(without(trace, 0, 6, 12), tmp_path / "shifted").message


def test_a_profile_with_fewer_regions_than_iterations_is_refused(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3)
    trace.profile.regions = trace.profile.regions[:2]
    assert "3 iterations are expected" in failure(trace, tmp_path).message


def test_restores_without_rows_of_their_own_leave_nothing_to_drop(tmp_path: Path) -> None:
    """A copy by the memory engine is no kernel row."""
    trace = build(GOLDENS["copies"], 3, with_steps=False)
    trace.profile.restored = ["args[0]"]
    assert_labels(attributed(trace, tmp_path), trace)


def test_restores_that_are_no_copies_before_the_noise_are_refused_without_step_ids(tmp_path: Path) -> None:
    trace = build(GOLDENS["casts"], 3, restores=1, with_steps=False)
    rows = [replace(row, op="Mul", name="Mul") if row.op == RESTORE.op else row for row in trace.rows]
    assert "rows more than the last one" in failure(replace(trace, rows=rows), tmp_path).message


def test_kernels_are_told_apart_among_very_many_names_and_shapes(tmp_path: Path) -> None:
    """The product of all distinct cells is beyond 64 bits."""
    count = 60_000
    lines = [f'K{k}x,Op{k},Core{k},{k},1,"""{k}"""\n' for k in range(count)] + ['K7x,Op7,Core7,1,1,"""7"""\n']
    path = tmp_path / "kernel_details.csv"
    path.write_text("Name,Type,Accelerator Core,Start Time(us),Duration(us),Input Shapes\n" + "".join(lines))
    kernels = Kernels.of(kernel_table.read(path, "kernel_details"))
    assert len(kernels.kinds) == count
    assert kernels[7] == kernels[count] == Kernel("Op7", "K7x", "Core7", "7")


def test_a_capture_without_any_row_of_the_case_s_device_is_no_kernels(tmp_path: Path) -> None:
    text = "Step Id,Device_id,Name,Start Time(us),Duration(us)\n13,0,Add,1,1\n13,1,Add,2,1\n,2,Add,3,1\n"
    (tmp_path / "kernel_details.csv").write_text(text)
    record = traces.profile(0, noise=False)
    record.device = replace(record.device, physical_id="2")
    with pytest.raises(CaseFailure) as caught:
        attribution.attribute(kernel_table.read(tmp_path / "kernel_details.csv", "kernel_details"), record)
    assert caught.value.status is Status.NO_KERNELS
    assert "2 other_device" in caught.value.message


@pytest.mark.parametrize(
    ("name", "op", "stable"),
    [
        ("Conv2D7", "Conv2D", "Conv2D"),
        ("Conv2D7", None, "Conv2D"),
        ("trans_Cast_15", "Cast", "trans_Cast"),
        ("trans_TransData_0", None, "trans_TransData"),
        ("Conv2DBackpropFilter10_MemSet", "MemSet", "Conv2DBackpropFilter_MemSet"),
        ("aclnnMm_MatMulCommon_MatMulV2", None, "aclnnMm_MatMulCommon_MatMulV2"),
        ("MatMulV3", "MatMulV3", "MatMulV3"),
        ("cutlass_gemm_align8", "aten::mm", "cutlass_gemm_align8"),
    ],
)
def test_only_running_numbers_are_taken_off_a_name(name: str, op: str | None, stable: str) -> None:
    assert stable_name(name, op) == stable
