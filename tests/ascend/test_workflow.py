"""The whole workflow on the real torch_npu: from the cases file to a report that says what it was made on."""

from __future__ import annotations

import itertools

from scripts.status import Status

from .stand_in import Ascend
from .workflow_run import ITERATIONS, MAIN, SETTINGS, TEN, Sweep


def test_every_case_ends_with_a_report(sweep: Sweep) -> None:
    assert sweep.run.code == 0, sweep.run.output
    for case in (MAIN, *(f"{golden}/smoke" for golden in TEN)):
        assert sweep.project.perf(case).status is Status.OK
        assert "# " in sweep.project.report(case)


def test_the_report_says_in_its_first_lines_that_a_stand_in_made_it(sweep: Sweep) -> None:
    lines = sweep.project.report(MAIN).splitlines()
    head = "\n".join(lines[:4])
    assert lines[0] == "# attention Golden NPU Performance Report"
    assert "NO HARDWARE" in head
    assert "stand-in" in head
    assert "- **Device**: npu:0" in lines[:8]


def test_the_record_names_the_device_and_its_versions(sweep: Sweep) -> None:
    profile = sweep.project.perf(MAIN).profile
    assert (profile.device.kind, profile.device.name, profile.device.physical_id) == ("npu", "npu:0", "0")
    assert profile.device.stand_in
    assert profile.device.model == "Ascend910B3"
    assert {"torch", "torch_npu", "cann"} <= profile.versions.keys()


def test_the_numbers_are_those_of_the_real_kernel_view(sweep: Sweep) -> None:
    perf = sweep.project.perf(MAIN)
    assert perf.output.source_kind == "kernel_details"
    assert perf.output.level == "Level1"
    assert [total.step_id for total in perf.iterations] == [1, 2]
    assert perf.cross_check.agrees
    assert {row.op for row in perf.ops} == {"BatchMatMul", "Mul", "SoftmaxV2", "Cast", "Transpose"}
    assert perf.pipes, "Level1 with PipeUtilization gives a second table"


def test_auto_means_the_npu_where_there_is_one(sweep: Sweep) -> None:
    arguments = ("-n", *SETTINGS, "device=auto", "--", f"reports/{MAIN}.md")
    run = sweep.project.run(*arguments, **sweep.environment)
    assert run.nothing_to_do, run.output


def test_the_profilers_folder_is_the_users_alone_behind_a_link_that_everybody_may_write(sweep: Sweep) -> None:
    folder = sweep.project.folder(MAIN)
    (capture,) = folder.glob("*_ascend_pt")
    for path in (folder, capture, *capture.glob("PROF_*")):
        assert path.stat().st_mode & 0o022 == 0, path


def test_one_case_at_a_time_has_the_device(sweep: Sweep) -> None:
    """Two jobs run at once; the lock gives the device to the next one as soon as a capture has ended."""
    held = {}
    for call in Ascend.call_log(sweep.log):
        if call.name in ("aclrtSetDevice", "aclprofFinalize"):
            begin, _ = held.get(call.pid, (call.ns, 0))
            held[call.pid] = (begin, call.ns)
    assert len(held) == len(TEN) + 1, "only the processes that measured have touched the device"
    in_order = sorted(held.values())
    for (_, end), (begin, _) in itertools.pairwise(in_order):
        assert end < begin


def test_the_analysis_begins_when_the_process_that_measured_has_ended(sweep: Sweep) -> None:
    folder = sweep.project.folder(MAIN)
    log = (folder / "profile.log").read_text()
    assert log.index("profile took") < log.index("Start parsing profiling data") < log.index("analyse took")
    assert "analysis 1: " in log
    last_ns = max(call.ns for call in sweep.traffic(MAIN).calls)
    (capture,) = folder.glob("*_ascend_pt")
    assert (capture / "ASCEND_PROFILER_OUTPUT/trace_view.json").stat().st_mtime_ns > last_ns


def test_nothing_is_left_of_a_collected_case(sweep: Sweep) -> None:
    folder = sweep.project.folder(MAIN)
    names = {path.name for path in folder.iterdir()}
    assert {"profile.json", "output.json", "perf.json"} <= names
    assert not {"collected.json", "inputs.pt", "failure.json"} & names
    assert len(sweep.project.perf(MAIN).iterations) == ITERATIONS


def test_no_process_is_left(sweep: Sweep) -> None:
    assert sweep.project.processes_after_a_moment(20) == []
