"""The preflight: each check by itself, the profiled operator, and what is said when something is missing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from scripts import artifacts, cli, doctor, doctor_probe, locate_output, parse_csv
from scripts.artifacts import PerfRecord, read
from scripts.devices import ascend, identity
from scripts.devices.identity import DeviceIdentity, Survey
from scripts.findings import Level
from tests.ascend.conftest import ascend as ascend_machine  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]
GIB = 2**30


def test_python_that_is_too_old_is_a_problem():
    assert doctor.python((3, 10)).level is Level.PROBLEM
    assert doctor.python((3, 11)).level is Level.OK


@pytest.mark.parametrize(
    ("installed", "level"),
    [("", Level.PROBLEM), ("2.13.0+cpu", Level.OK), ("2.13.0", Level.OK), ("2.12.0", Level.WARNING)],
)
def test_torch_is_held_against_the_tested_version(installed, level):
    assert doctor.torch_version(installed, "2.13.0").level is level


@pytest.mark.parametrize(
    ("torch", "torch_npu", "level"),
    [
        ("2.13.0+cpu", "2.13.0", Level.OK),
        ("2.12.0", "2.12.0.post3", Level.OK),
        ("2.13.0", "2.12.0.post3", Level.PROBLEM),
        ("", "2.13.0", Level.PROBLEM),
    ],
)
def test_torch_npu_must_be_built_for_torch(torch, torch_npu, level):
    found = ascend.pair(torch, torch_npu)
    assert found.level is level
    assert level is Level.OK or "install" in found.advice


def test_cann_is_found_by_its_environment(tmp_path):
    assert ascend.cann({}, "").level is Level.PROBLEM
    assert ascend.cann({"ASCEND_HOME_PATH": str(tmp_path / "gone")}, "").level is Level.PROBLEM
    assert ascend.cann({"ASCEND_TOOLKIT_HOME": str(tmp_path)}, "").level is Level.WARNING
    assert ascend.cann({"ASCEND_TOOLKIT_HOME": str(tmp_path)}, "8.5.0").level is Level.OK


def test_msprof_needs_its_script_beside_it(tmp_path):
    program = tmp_path / "tools/profiler/bin/msprof"
    assert ascend.msprof(None).level is Level.PROBLEM
    assert ascend.msprof("/usr/bin/msprof").level is Level.PROBLEM
    assert ascend.msprof(str(program)).level is Level.PROBLEM
    script = tmp_path / "tools/profiler/profiler_tool/analysis/msprof/msprof.py"
    script.parent.mkdir(parents=True)
    script.touch()
    assert ascend.msprof(str(program)).level is Level.OK


def test_variables_that_turn_the_profiler_off_are_named():
    found = list(ascend.switches({"PROFILING_MODE": "dynamic"}))
    assert [finding.level for finding in found] == [Level.WARNING]
    assert "PROFILING_MODE=dynamic" in found[0].text
    assert [finding.level for finding in ascend.switches({})] == [Level.OK]


def test_device_numbers_are_told():
    assert "npu:1 is device 5" in ascend.visible_devices({"ASCEND_RT_VISIBLE_DEVICES": "4,5"}, 2).text
    assert ascend.visible_devices({"ASCEND_RT_VISIBLE_DEVICES": "4,5"}, 1).level is Level.WARNING
    assert ascend.visible_devices({}, 8).level is Level.OK


def test_nothing_is_said_of_ascend_where_torch_npu_is_not_installed(monkeypatch):
    monkeypatch.setattr(identity, "package_version", lambda package: "")
    assert list(ascend.findings({})) == []


def test_every_kind_of_device_is_explained(monkeypatch):
    surveys = {
        "npu": Survey("npu", (), looked_for="the runtime counts 0 devices."),
        "cuda": Survey("cuda", (), looked_for="there is no `nvidia-smi`."),
        "cpu": Survey("cpu", ("EPYC × 2",)),
    }
    monkeypatch.setattr(identity, "survey", surveys.__getitem__)
    monkeypatch.setattr(doctor, "half_installed", lambda kind: kind == "npu")
    found = {finding.subject: finding for finding in doctor.devices(DeviceIdentity("cpu", 0, "EPYC × 2"))}
    assert [found[kind].level for kind in ("npu", "cuda", "cpu")] == [Level.WARNING, Level.OK, Level.OK]
    assert "counts 0 devices" in found["npu"].text and "nvidia-smi" in found["cuda"].text
    asked = {finding.subject: finding for finding in doctor.devices(DeviceIdentity("cuda", 0, ""))}
    assert asked["cuda"].level is Level.PROBLEM


def test_one_core_is_a_warning():
    assert doctor.cores(1, "cpu").level is Level.WARNING
    assert "analysis fails with one" in doctor.cores(1, "npu").advice
    assert doctor.cores(2, "npu").level is Level.OK


@pytest.mark.parametrize(("mask", "kind", "level"), [(0o002, "npu", "warning"), (0o022, "npu", "ok"), (0, "cpu", "ok")])
def test_a_umask_that_lets_others_write_matters_on_an_npu(mask, kind, level):
    assert doctor.umask(mask, kind).level == level


def test_the_umask_is_looked_at_and_left_as_it_is():
    before = os.umask(0o027)
    try:
        assert artifacts.umask() == 0o027
        assert artifacts.umask() == 0o027
    finally:
        os.umask(before)


@pytest.mark.parametrize(("gib", "level"), [(0.5, "problem"), (5, "warning"), (50, "ok")])
def test_free_disk(gib, level):
    assert doctor.disk(int(gib * GIB)).level == level


def test_a_lock_folder_that_cannot_be_used_is_a_problem(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GOLDENPROF_LOCK_DIR", str(tmp_path / "file"))
    assert doctor.lock_folder().level is Level.PROBLEM
    monkeypatch.setenv("GOLDENPROF_LOCK_DIR", str(tmp_path / "locks"))
    assert doctor.lock_folder().level is Level.OK


def test_prof_as_a_link_is_a_warning(tmp_path):
    (tmp_path / "prof").symlink_to(tmp_path)
    assert doctor.writable(tmp_path / "prof").level is Level.WARNING
    assert doctor.writable(tmp_path / "new").level is Level.OK


def test_torch_that_cannot_be_imported_for_want_of_cann_is_explained(tmp_path):
    log = "Traceback …\nRuntimeError: Failed to load the backend extension: torch_npu. You can disable …\n"
    found = doctor.outcome("profiling on cpu", tmp_path / "none.json", 1, log)
    assert found.level is Level.PROBLEM
    assert "set_env.sh" in found.advice and "uninstall torch_npu" in found.advice


def test_a_probe_that_dies_is_a_problem_with_its_last_words(tmp_path):
    found = doctor.outcome("profiling on cpu", tmp_path / "none.json", -11, "importing\nSegmentation fault\n\n")
    assert found.level is Level.PROBLEM
    assert "code -11: Segmentation fault" in found.text


def test_a_probe_without_kernels_is_a_problem(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"status": "no_kernels", "message": "none", "advice": "look"}))
    found = doctor.outcome("profiling on npu:0", tmp_path / "a.json", 3, "")
    assert (found.level, found.text, found.advice) == (Level.PROBLEM, "no_kernels: none", "look")


def test_a_device_that_is_not_there_is_a_problem_and_nothing_is_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "profiling", lambda device, save: pytest.fail("nothing is to be run"))
    if identity.survey("cuda").models:
        pytest.skip("this machine has a CUDA device")
    assert cli.main(["doctor", "--device", "cuda:3"]) == 1
    assert "problem  cuda:3: No cuda device is usable" in capsys.readouterr().out


def test_a_device_that_does_not_exist_is_refused(capsys):
    assert cli.main(["doctor", "--device", "tpu"]) == 1
    told = capsys.readouterr().err
    assert "there is no device 'tpu'" in told and "Also allowed: auto" in told


def test_several_devices_are_probed_one_after_another(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(
        doctor, "profiling", lambda device, save: asked.append((device.name, save)) or doctor.ok(device.name, "fine")
    )
    core = min(os.sched_getaffinity(0))
    assert cli.main(["doctor", "--device", f"cpu:{core},cpu:4000", "--save", "evidence"]) == 1
    assert asked == [(f"cpu:{core}", Path(f"evidence/cpu-{core}"))]
    assert "problem  cpu:4000: Cores 4000 cannot be used by this process" in capsys.readouterr().out


def test_gpus_are_told_by_their_uuids(monkeypatch):
    surveys = {
        "npu": Survey("npu", (), looked_for="nothing"),
        "cuda": Survey("cuda", ("H200",), ids=("GPU-1a",)),
        "cpu": Survey("cpu", ("EPYC × 2",)),
    }
    monkeypatch.setattr(identity, "survey", surveys.__getitem__)
    found = {finding.subject: finding.text for finding in doctor.devices(DeviceIdentity("cpu", 0, "EPYC × 2"))}
    assert found["device ids"] == "cuda:0 is GPU-1a"


def test_doctor_profiles_a_small_operator_and_keeps_its_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["doctor", "--device", "cpu", "--save", "evidence"]) == 0
    shown = capsys.readouterr().out
    assert "profiling on cpu: 3 iterations of 2 kernels each (aten::mm" in shown
    (perf,) = Path("evidence").glob("*/perf.json")
    record = read(perf, PerfRecord)
    assert [row.op for row in record.ops].count("aten::mm") == 1
    assert f"{record.ops[0].mean_us:.1f} us" in shown
    assert (perf.parent / record.output.source).is_file()
    assert "aten::mm" in Path("evidence/doctor.txt").read_text()
    assert cli.main(["doctor", "--device", "cpu", "--save", "evidence"]) == 1  # never over what is there


def test_a_golden_that_cannot_run_ends_the_probe_with_its_status(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor_probe, "GOLDEN", "\n    def doctor_golden(a, b, c):\n        return a @ b[1:]\n")
    assert doctor_probe.main("cpu", str(tmp_path)) == 2
    told = json.loads((tmp_path / "doctor_probe.json").read_text())
    assert told["status"] == "golden_failed" and "doctor_golden raised" in told["message"]


def test_exit_code_1_only_for_problems(monkeypatch, capsys):
    warned = [doctor.cores(1, "cpu"), doctor.python((3, 11))]
    monkeypatch.setattr(doctor, "findings", lambda device, run, save: iter(warned))
    assert cli.main(["doctor"]) == 0
    assert "0 problems, 1 warning." in capsys.readouterr().out
    monkeypatch.setattr(doctor, "findings", lambda device, run, save: iter([doctor.disk(0)]))
    assert cli.main(["doctor"]) == 1


# ---------------------------------------------------------------- on a stand-in Ascend machine


def doctor_on(machine, *arguments: str, **options):
    return machine.python("-m", "scripts.cli", "doctor", "--device", "npu:0", *arguments, timeout_s=300, **options)


def test_what_an_npu_gave_is_kept_and_can_be_imported_elsewhere(ascend_machine, tmp_path, monkeypatch):  # noqa: F811
    evidence = tmp_path / "evidence"
    done = doctor_on(ascend_machine, "--save", str(evidence))
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("ok       torch_npu: 2.13.0 fits torch", "ok       msprof: ", "a stand-in that computes nothing"):
        assert line in done.stdout
    assert "profiling on npu:0: 3 iterations of 2 kernels each" in done.stdout
    (measured,) = (read(path, PerfRecord) for path in evidence.glob("*/perf.json"))
    assert measured.profile.device.stand_in
    (capture,) = evidence.glob("*/*_ascend_pt")
    monkeypatch.chdir(tmp_path)
    shape = ",".join(map(str, measured.profile.noise.shape))
    assert cli.main(["import", str(capture), "doctor/elsewhere", "--noise-shape", shape]) == 0
    (imported,) = (read(path, PerfRecord) for path in Path("prof/doctor/elsewhere").glob("*/perf.json"))
    assert (imported.e2e_us, imported.ops) == (measured.e2e_us, measured.ops)
    assert imported.profile.device.stand_in


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({"msprof": False}, ("problem  msprof: not on PATH", "problem  profiling on npu:0: ")),
        ({"devices": 0}, ("problem  npu: not usable", "problem  npu:0: No npu device is usable")),
        ({"faults": "csv_header_only"}, ("ok       msprof: ", "problem  profiling on npu:0: ")),
    ],
    ids=["without msprof", "without a device", "without rows"],
)
def test_an_npu_that_cannot_give_kernels_is_a_problem(ascend_machine, options, lines):  # noqa: F811
    done = doctor_on(ascend_machine, **options)
    assert done.returncode == 1, done.stdout + done.stderr
    for line in lines:
        assert line in done.stdout


def test_evidence_from_real_npus_still_reads_the_same(tmp_path):
    """Folders that `goldenprof doctor --save tests/evidence/NAME` left on machines with an NPU."""
    kept = sorted((ROOT / "tests/evidence").glob("*/*-npu-*/perf.json"))
    if not kept:
        pytest.skip("no evidence from an NPU under tests/evidence yet: docs/ascend.md says how to save it")
    for number, path in enumerate(kept):
        before = read(path, PerfRecord)
        case_dir = tmp_path / str(number)
        shutil.copytree(path.parent, case_dir)
        locate_output.run(case_dir)
        now = parse_csv.parse(case_dir)
        assert (now.e2e_us, now.ops, now.dropped) == (before.e2e_us, before.ops, before.dropped)
        assert not now.profile.device.stand_in
