"""Importing a capture that was profiled elsewhere: numbers, provenance, and what is refused."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import statistics
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from scripts import capture_facts, cli
from scripts.artifacts import PerfRecord, read
from tests import traces

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared/corpus"
INFO = {
    "config": {
        "common_config": {
            "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
            "schedule": {"wait": 0, "active": 3, "warmup": 2, "repeat": 1, "skip_first": 0},
        },
        "experimental_config": {"_profiler_level": "Level1"},
    },
    "torch_npu_version": "2.7.1",
    "cann_version": "8.3.RC1",
}
NOISE_SHAPE = ",".join(map(str, traces.NOISE_SHAPE))


def golden(iteration: int) -> list[traces.Launch]:
    return [
        traces.launch("MatMulV2", us=f"4{iteration}.125"),
        traces.launch("ReduceMax", "64,64", us="3.5"),
        traces.launch("SoftmaxV2", us="32.25"),
    ]


def capture(tmp_path: Path, trace: traces.Trace, info: dict | None = INFO, **options) -> Path:
    """The capture of `trace` alone, as somebody else would hand it over."""
    trace.write(tmp_path / "made", **options)
    folder = tmp_path / "foreign" / traces.CAPTURE
    shutil.copytree(tmp_path / "made" / traces.CAPTURE, folder)
    if info is not None:
        (folder / "profiler_info.json").write_text(json.dumps(info))
    return folder


@pytest.fixture
def trace(monkeypatch, tmp_path):
    """Three iterations with noise; the working directory is empty."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return traces.build(golden, 3)


def imported(*arguments: object) -> PerfRecord:
    assert cli.main(["import", *map(str, arguments)]) == 0
    (perf,) = Path("prof").glob("*/*/*/perf.json")
    return read(perf, PerfRecord)


def test_the_numbers_are_the_goldens_when_the_noise_is_named(tmp_path, trace):
    perf = imported(capture(tmp_path, trace), "softmax/big", "--noise-shape", NOISE_SHAPE)
    totals = [trace.golden_us(k) for k in range(3)]
    assert [entry.device_total_us for entry in perf.iterations] == totals
    assert perf.e2e_us == statistics.median(totals)
    assert {row.op: row.count for row in perf.ops} == {"MatMulV2": 1, "ReduceMax": 1, "SoftmaxV2": 1}
    assert [row.rule for row in perf.dropped] == ["noise"] * 3
    assert perf.profile.noise.mib == 96 * 4


def test_without_a_named_noise_every_kernel_counts_and_the_report_says_so(tmp_path, trace):
    perf = imported(capture(tmp_path, trace), "softmax/big")
    totals = [trace.golden_us(k) + Decimal("310.04") for k in range(3)]
    assert perf.e2e_us == statistics.median(totals)
    assert perf.dropped == []
    assert any("every kernel of a step counts as the golden's" in text for text in perf.profile.warnings)


def test_the_report_says_in_its_first_lines_that_it_was_imported_and_from_where(tmp_path, trace, capsys):
    folder = capture(tmp_path, trace)
    imported(folder, "softmax_golden/big", "--noise-shape", NOISE_SHAPE)
    lines = Path("reports/softmax_golden/big.md").read_text().splitlines()
    assert lines[0] == "# softmax Golden NPU Performance Report"
    assert lines[2] == f"> **IMPORTED** from `{folder}`: profiled elsewhere, not by this tool."
    assert "E2E " in capsys.readouterr().out


def test_what_the_capture_says_of_itself_is_kept(tmp_path, trace):
    perf = imported(capture(tmp_path, trace), "softmax/big", "--model", "Ascend910B3")
    profile = perf.profile
    assert profile.versions == {"torch_npu": "2.7.1", "cann": "8.3.RC1"}
    assert (profile.device.kind, profile.device.model, profile.device.stand_in) == ("npu", "Ascend910B3", False)
    assert (profile.warmup, profile.iterations, perf.output.level) == (2, 3, "Level1")
    assert profile.started_at.startswith("2025-11-27T")
    assert re.fullmatch(r"[0-9a-f]{12}-npu-[0-9a-f]{8}", profile.key)
    assert profile.settings["imported_from"].endswith(traces.CAPTURE)


def test_the_command_in_the_record_does_the_same_again(tmp_path, trace):
    folder = capture(tmp_path, trace)
    arguments = [folder, "softmax/big", "--noise-shape", NOISE_SHAPE, "--iterations", 3, "--model", "910 B"]
    perf = imported(*arguments)
    shutil.rmtree("prof")
    again = imported(*shlex.split(perf.profile.command)[2:])
    assert (again.profile, again.e2e_us) == (perf.profile, perf.e2e_us)


def test_a_stand_in_is_called_one(tmp_path, trace):
    perf = imported(capture(tmp_path, trace, {**INFO, "cann_version": "8.5.0-stand-in"}), "softmax/big")
    assert perf.profile.device.stand_in
    assert "NO HARDWARE" in Path("reports/softmax/big.md").read_text()


def test_neither_torch_nor_a_device_is_needed(tmp_path, trace):
    folder = capture(tmp_path, trace)
    code = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['torch_npu'] = None\n"  # importing either raises
        "from scripts import cli\n"
        f"sys.exit(cli.main(['import', {str(folder)!r}, 'softmax/big']))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(ROOT), "PATH": ""})
    assert Path("reports/softmax/big.md").exists()


def test_a_capture_is_copied_untouched(tmp_path, trace):
    folder = capture(tmp_path, trace)
    perf = imported(folder, "softmax/big")
    copy = Path("prof/softmax/big", perf.profile.key, traces.CAPTURE)
    assert not copy.is_symlink()
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(copy) for path in copy.rglob("*") if path.is_file())
    assert all((folder / name).read_bytes() == (copy / name).read_bytes() for name in files)


def test_a_capture_can_be_linked(tmp_path, trace):
    folder = capture(tmp_path, trace)
    perf = imported(folder, "softmax/big", "--link")
    assert Path("prof/softmax/big", perf.profile.key, traces.CAPTURE).readlink() == folder
    assert cli.main(["import", str(folder), "softmax/big", "--link"]) == 0  # again, over the link
    assert (folder / "profiler_info.json").exists()


def test_the_key_is_the_contents(tmp_path, trace):
    folder = capture(tmp_path, trace)
    first = imported(folder, "softmax/big").profile.key
    assert imported(folder, "softmax/big").profile.key == first
    shutil.rmtree("prof")
    moved = folder.rename(tmp_path / "moved_ascend_pt")
    assert imported(moved, "softmax/big").profile.key == first
    shutil.rmtree("prof")
    csv = moved / "ASCEND_PROFILER_OUTPUT/kernel_details.csv"
    csv.write_bytes(csv.read_bytes() + b"\r\n")
    assert imported(moved, "softmax/big").profile.key != first
    shutil.rmtree("prof")
    assert imported(moved, "softmax/big", "--noise-shape", NOISE_SHAPE).profile.key != first


def test_the_folder_may_be_named_from_above_or_below(tmp_path, trace):
    folder = capture(tmp_path, trace)
    key = imported(folder, "softmax/big").profile.key
    assert imported(folder.parent, "softmax/big").profile.key == key
    assert imported(folder / "ASCEND_PROFILER_OUTPUT", "softmax/big").profile.key == key


def test_a_capture_without_step_ids_needs_the_number_of_iterations(tmp_path, monkeypatch, trace, capsys):
    folder = capture(tmp_path, traces.build(golden, 3, with_steps=False, noise=None))
    assert cli.main(["import", str(folder), "softmax/big"]) == 1
    assert "Say it with --iterations" in capsys.readouterr().err
    assert not Path("prof").exists() or not any(Path("prof").iterdir())


def test_a_capture_without_step_ids_is_split_by_the_noise(tmp_path, trace):
    folder = capture(tmp_path, traces.build(golden, 3, with_steps=False))
    perf = imported(folder, "softmax/big", "--iterations", 3, "--noise-shape", NOISE_SHAPE)
    assert [entry.device_total_us for entry in perf.iterations] == [trace.golden_us(k) for k in range(3)]


def test_the_wrong_number_of_iterations_is_refused(tmp_path, trace, capsys):
    assert cli.main(["import", str(capture(tmp_path, trace)), "softmax/big", "--iterations", "4"]) == 3
    assert "4 iterations are expected" in capsys.readouterr().err


def with_devices(folder: Path, devices: list[str]) -> Path:
    """Give each of the rows a Device_id, in turn; rows of one device stay with whole iterations."""
    csv = folder / "ASCEND_PROFILER_OUTPUT/kernel_details.csv"
    header, *rows = csv.read_text().splitlines()
    step, _, rest = header.partition(",")
    lines = [f"{step},Device_id,{rest}"]
    lines += ["{0},{2},{1}".format(*row.split(",", 1), device) for device in devices for row in rows]
    csv.write_text("\r\n".join(lines) + "\r\n")
    (folder / "ASCEND_PROFILER_OUTPUT/op_statistic.csv").unlink()
    return folder


def test_the_device_is_taken_from_the_rows(tmp_path, trace):
    perf = imported(with_devices(capture(tmp_path, trace), ["4"]), "softmax/big")
    assert (perf.profile.device.name, perf.profile.device.physical_id) == ("npu:4", "4")


def test_of_several_devices_one_must_be_chosen(tmp_path, trace, capsys):
    folder = with_devices(capture(tmp_path, trace), ["4", "5"])
    assert cli.main(["import", str(folder), "softmax/big"]) == 1
    assert "devices 4, 5. Choose one with --device-id" in capsys.readouterr().err
    assert cli.main(["import", str(folder), "softmax/big", "--device-id", "6"]) == 1
    assert "no device 6" in capsys.readouterr().err
    perf = imported(folder, "softmax/big", "--device-id", 5, "--noise-shape", NOISE_SHAPE)
    assert perf.e2e_us == statistics.median(trace.golden_us(k) for k in range(3))


def test_rows_that_contradict_the_profilers_own_statistics_are_refused(tmp_path, trace, capsys):
    folder = capture(tmp_path, trace)
    csv = folder / "ASCEND_PROFILER_OUTPUT/kernel_details.csv"
    csv.write_text("\n".join(csv.read_text().splitlines()[:-1]) + "\n")
    assert cli.main(["import", str(folder), "softmax/big"]) == 3
    shown = capsys.readouterr().err
    assert f"{folder}/ASCEND_PROFILER_OUTPUT" in shown and "Traceback" not in shown


@pytest.mark.parametrize("link", [[], ["--link"]])
def test_a_capture_that_cannot_be_read_leaves_nothing_behind(tmp_path, trace, capsys, link):
    folder = capture(tmp_path, trace)
    (folder / "ASCEND_PROFILER_OUTPUT/kernel_details.csv").write_text("")
    assert cli.main(["import", str(folder), "softmax/big", *link]) == 3
    shown = capsys.readouterr().err
    assert f"missing_output: {folder}/ASCEND_PROFILER_OUTPUT: kernel_details.csv is empty" in shown
    assert list(Path().rglob("*")) == [Path("prof")]
    assert (folder / "profiler_info.json").exists()


def test_a_folder_that_is_no_capture_is_refused(tmp_path, trace, capsys):
    assert cli.main(["import", str(tmp_path / "gone"), "softmax/big"]) == 1
    assert "is not a folder" in capsys.readouterr().err
    assert cli.main(["import", str(tmp_path), "softmax/big"]) == 1
    assert "holds none" in capsys.readouterr().err
    for name in ("a_ascend_pt", "b_ascend_pt"):
        (tmp_path / "two" / name).mkdir(parents=True)
    assert cli.main(["import", str(tmp_path / "two"), "softmax/big"]) == 1
    assert "holds 2 of them: a_ascend_pt, b_ascend_pt" in capsys.readouterr().err


def test_a_capture_of_another_device_is_not_called_an_npu(tmp_path, trace, capsys):
    info = {"config": {"common_config": {"activities": ["ProfilerActivity.CPU"]}}}
    assert cli.main(["import", str(capture(tmp_path, trace, info)), "softmax/big"]) == 1
    assert "is not a capture of an NPU" in capsys.readouterr().err


def test_a_damaged_or_missing_profiler_info_is_no_obstacle(tmp_path, trace):
    folder = capture(tmp_path, trace, info=None)
    (folder / "profiler_info_0.json").write_text('{"config": ')
    perf = imported(folder, "softmax/big")
    assert (perf.profile.versions, perf.profile.device.model) == ({}, "Ascend NPU of unknown model")


def test_a_measured_report_is_not_overwritten(tmp_path, trace, capsys):
    Path("reports/softmax").mkdir(parents=True)
    Path("reports/softmax/big.md").write_text("# softmax Golden CPU Performance Report\n")
    folder = capture(tmp_path, trace)
    assert cli.main(["import", str(folder), "softmax/big"]) == 1
    assert "measured here" in capsys.readouterr().err
    assert not Path("prof").exists()
    imported(folder, "softmax/big", "--report", "elsewhere.md")
    assert Path("elsewhere.md").exists()


@pytest.mark.parametrize("name", ["softmax", "softmax/", "/big", "../big", "softmax/../x", "softmax/a b", "summary/x"])
def test_names_that_would_leave_their_folder_are_refused(tmp_path, trace, capsys, name):
    assert cli.main(["import", str(capture(tmp_path, trace)), name]) == 1
    assert list(Path().rglob("*")) == []


@pytest.mark.parametrize("shape", ["", "big", "0,4", "4,-1", "1.5"])
def test_a_noise_shape_that_is_none_is_refused(tmp_path, trace, capsys, shape):
    if not shape:
        shape = ","
    assert cli.main(["import", str(capture(tmp_path, trace)), "softmax/big", f"--noise-shape={shape}"]) == 1
    assert "such as 96,1024,1024" in capsys.readouterr().err


def corpus(name: str) -> Path:
    folder = CORPUS / name
    if not folder.is_dir():
        pytest.skip(f"no real capture in {folder}: it is not part of this repository")
    return folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [("tree_2025_01_level0_rank0_ascend_pt", "kernel_details"), ("tree_db_only_level0_rank0_ascend_pt", "db")],
)
def test_real_captures_are_imported(trace, name, kind):
    perf = imported(corpus(name), "real/one")
    assert perf.output.source_kind == kind
    assert perf.output.level == "Level0"
    assert len(perf.iterations) == 1 and perf.e2e_us > 8000
    assert sum(row.total_us for row in perf.ops) == perf.e2e_us
    assert any("no op types" in text or kind == "db" for text in perf.warnings)


def test_a_real_capture_whose_rows_were_cut_is_refused(trace, capsys):
    """Its kernel_details.csv holds the first 300 rows only, and op_statistic.csv all."""
    folder = corpus("tree_cann83rc1_level2_rank2_dev4_ascend_pt")
    assert capture_facts.read(folder).versions == {"torch_npu": "2.7.1", "cann": "8.3.RC1"}
    assert cli.main(["import", str(folder), "real/cut"]) == 3
    assert "op_statistic.csv does not agree" in capsys.readouterr().err


def test_a_database_names_the_chip():
    assert capture_facts.read(corpus("tree_db_only_level0_rank0_ascend_pt")).model == "Ascend910B"
