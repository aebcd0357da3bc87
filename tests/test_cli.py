"""The command line: help, errors as sentences, exit codes; and its verbs `list` and `clean`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import artifacts, clean, cli
from scripts.artifacts import FailureRecord
from scripts.errors import ArtifactError, CaseFailure, ConfigError
from scripts.plan import Plan
from scripts.status import Status
from tests.records import perf_record

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = "def add_golden(a, b):\n    return a + b\n"
CASES = """\
operators:
  add_golden:
    golden: golden/add_golden.py
    family: vector
    mode: A
    device: cpu
    cases:
      smoke: {tier: smoke, inputs: {a: {shape: [4], dtype: float32}, b: {shape: [4], dtype: float32}}}
      p0: {tier: p0, inputs: {a: {shape: [8], dtype: float32}, b: {shape: [8], dtype: float32}}}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of one operator with two cases, as the working directory."""
    (tmp_path / "golden").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "golden/add_golden.py").write_text(GOLDEN)
    (tmp_path / "config/cases.yaml").write_text(CASES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def key_of(case: str) -> str:
    return Plan.load({}).case("add_golden", case).key


def folder(case: str, key: str, operator: str = "add_golden", content: str = "x" * 1000, **files: str) -> Path:
    made = Path("prof", operator, case, key)
    made.mkdir(parents=True)
    (made / "data").write_text(content)
    for name, text in files.items():
        (made / f"{name}.json").write_text(text)
    return made


def test_help_names_every_verb_and_imports_none_of_them(capsys):
    code = (
        "import sys; from scripts import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('torch', 'pandas', 'numpy', 'snakemake', 'scripts.doctor', 'scripts.plan')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    for verb in ("list", "doctor", "import", "discover", "clean"):
        assert f"    {verb} " in done.stdout
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize("verb", [verb.name for verb in cli.VERBS])
def test_every_verb_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([verb, "--help"])
    assert end.value.code == 0
    assert f"goldenprof {verb}" in capsys.readouterr().out


def test_help_lists_every_verb_once_whichever_is_asked_for(capsys):
    shown = []
    for arguments in (["--help"], ["--help", "list"]):
        with pytest.raises(SystemExit):
            cli.main(arguments)
        shown.append(" ".join(capsys.readouterr().out.split()))
    assert shown[0] == shown[1]
    assert all(shown[0].count(verb.summary) == 1 for verb in cli.VERBS)


def test_an_unknown_key_of_config_is_answered_with_those_of_the_run_too(project):
    with pytest.raises(
        ConfigError, match=r'no key "tir"\. Did you mean tier\? .*iterations.*of the run: cases, .*match'
    ):
        Plan.load({"tir": "p0"})


def test_the_version_is_told(capsys):
    from importlib.metadata import version

    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"goldenprof {version('goldenprof')}\n"


@pytest.mark.parametrize("arguments", [["lsit"], ["list", "--teir", "p0"], []])
def test_a_wrong_command_line_ends_with_1_and_points_to_help(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert end.value.code == 1
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("The file is wrong."), 1),
        (ArtifactError("The file is damaged."), 1),
        (CaseFailure(Status.GOLDEN_FAILED, "It raised.", "Repair it."), 2),
        (CaseFailure(Status.TIMEOUT, "It hangs.", "Wait."), 3),
        (PermissionError(13, "Permission denied", "/no"), 1),
    ],
)
def test_errors_are_sentences_with_their_exit_code(error, code, monkeypatch, capsys):
    def fail(options):
        raise error

    monkeypatch.setattr("scripts.list_cases.main", fail)
    assert cli.main(["list"]) == code
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert (error.strerror if isinstance(error, OSError) else str(error)) in shown
    assert not isinstance(error, CaseFailure) or error.advice in shown


def test_list_shows_what_became_of_every_case(project, capsys):
    artifacts.write(
        Path("prof/add_golden/p0", key_of("p0"), "failure.json"),
        FailureRecord("add_golden", "p0", key_of("p0"), "profile", Status.TIMEOUT, "m", "a", "l", "c"),
    )
    smoke = folder("smoke", key_of("smoke"), profile="{}")
    for perf, status in (("", "profiled"), ("{", "unreadable"), (None, "ok")):
        if perf is None:
            artifacts.write(smoke / "perf.json", perf_record())
        elif perf:
            (smoke / "perf.json").write_text(perf)
        assert cli.main(["list"]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["add_golden/smoke", "smoke", "yes", "yes", status, key_of("smoke")] in lines
        assert ["add_golden/p0", "p0", "no", "no", "timeout", key_of("p0")] in lines


@pytest.mark.parametrize(("tier", "taken"), [((), 1), (("--tier", "all"), 2), (("--tier", "p0"), 1)])
def test_list_says_which_cases_a_sweep_takes(tier, taken, project, capsys):
    assert cli.main(["list", *tier]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[:-2]].count("yes") == taken
    assert lines[-1].endswith(f"not_run; a sweep takes {taken}")


def test_list_can_be_narrowed(project, capsys):
    assert cli.main(["list", "--tier", "smoke"]) == 0
    shown = capsys.readouterr().out
    assert "add_golden/smoke" in shown and "add_golden/p0" not in shown
    assert cli.main(["list", "--match", "mul*"]) == 1
    assert capsys.readouterr().err.startswith("No case is selected by match=mul*. ")


def test_list_without_a_cases_file_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["list"]) == 1
    assert "config/cases.yaml is missing" in capsys.readouterr().err


@pytest.fixture
def cluttered(project):
    """Folders of every kind: in use, old key, other device, removed case, imported; and what is none of ours."""
    digest = key_of("smoke").partition("-")[0]
    folder("smoke", key_of("smoke"))
    folder("smoke", "0123456789ab-cpu-01234567")
    folder("smoke", f"{digest}-npu-01234567")
    folder("gone", "0123456789ab-cpu-01234567", operator="gone_golden")
    imported = json.dumps({"settings": {"imported_from": "/elsewhere"}})
    folder("taken", "0123456789ab-npu-01234567", operator="foreign", profile=imported)
    Path("prof/README.md").write_text("layout")
    Path("prof/add_golden/smoke/notes").mkdir()
    return project


def reasons() -> dict[str, clean.Reason]:
    keys = {planned.case.id: {planned.key} for planned in Plan.load({}).by_id.values()}
    return {str(orphan.folder): orphan.reason for orphan in clean.orphans(keys)}


def test_clean_knows_why_a_folder_is_not_used(cluttered):
    digest = key_of("smoke").partition("-")[0]
    assert reasons() == {
        "prof/add_golden/smoke/0123456789ab-cpu-01234567": clean.Reason.OLD_KEY,
        f"prof/add_golden/smoke/{digest}-npu-01234567": clean.Reason.OTHER_DEVICE,
        "prof/gone_golden/gone/0123456789ab-cpu-01234567": clean.Reason.ABSENT_CASE,
        "prof/foreign/taken/0123456789ab-npu-01234567": clean.Reason.IMPORTED,
    }


def everything() -> set[str]:
    return {str(path) for path in Path("prof").rglob("*")}


def test_clean_removes_nothing_unless_asked(cluttered, capsys):
    before = everything()
    assert cli.main(["clean"]) == 0
    assert everything() == before
    shown = capsys.readouterr().out
    assert shown.startswith("Cases files read: config/cases.yaml. ")
    assert "prof/add_golden/smoke/0123456789ab-cpu-01234567" in shown and "1 folder, 0.0 MiB" in shown
    assert "1 kept: imported capture" in shown and "1 kept: the case is in none of the cases files read" in shown


def test_clean_keeps_what_belongs_to_any_of_several_cases_files(cluttered, capsys):
    Path("config/mine.yaml").write_text(CASES.replace("[4]", "[2]").replace("p0:", "mine:"))
    others = {planned.case.id: planned.key for planned in Plan.load({"cases": "config/mine.yaml"}).by_id.values()}
    mine = folder("mine", others["add_golden/mine"])
    same_id = folder("smoke", others["add_golden/smoke"])
    both = ("--cases", "config/cases.yaml", "--cases", "config/mine.yaml")
    assert cli.main(["clean", "--remove", "--absent-cases", *both]) == 0
    assert mine.exists() and same_id.exists() and Path("prof/add_golden/smoke", key_of("smoke")).exists()
    assert not Path("prof/gone_golden").exists()
    assert capsys.readouterr().out.startswith("Cases files read: config/cases.yaml, config/mine.yaml. ")
    assert cli.main(["clean", "--remove"]) == 0
    assert mine.exists(), "a capture of a case that is in no file read was removed unasked"


def test_clean_removes_old_keys_and_absent_cases_and_keeps_the_rest(cluttered, capsys):
    digest = key_of("smoke").partition("-")[0]
    assert cli.main(["clean", "--remove", "--absent-cases"]) == 0
    kept = {path for path in everything() if Path(path).name in ("data", "README.md", "notes")}
    assert kept == {
        f"prof/add_golden/smoke/{key_of('smoke')}/data",
        f"prof/add_golden/smoke/{digest}-npu-01234567/data",
        "prof/add_golden/smoke/notes",
        "prof/foreign/taken/0123456789ab-npu-01234567/data",
        "prof/README.md",
    }
    assert not Path("prof/gone_golden").exists()


def test_clean_removes_other_devices_and_imports_when_told_to(cluttered):
    assert cli.main(["clean", "--remove", "--other-devices", "--imported", "--absent-cases"]) == 0
    assert reasons() == {}
    assert Path("prof/add_golden/smoke", key_of("smoke"), "data").exists()


def test_clean_follows_no_link(project, tmp_path_factory, capsys):
    outside = tmp_path_factory.mktemp("outside")
    treasure = outside / "case/0123456789ab-cpu-01234567"
    treasure.mkdir(parents=True)
    (treasure / "data").write_text("precious")
    Path("prof/gone_golden/gone").mkdir(parents=True)
    os.symlink(outside, "prof/linked_golden")
    os.symlink(outside / "case", "prof/gone_golden/linked")
    os.symlink(treasure, "prof/gone_golden/gone/0123456789ab-cpu-01234567")
    inside = folder("old", "0123456789ab-cpu-89abcdef", operator="gone_golden")
    os.symlink(treasure, inside / "host_1_ascend_pt")
    assert cli.main(["clean", "--remove", "--absent-cases"]) == 0
    assert not inside.exists()
    assert (treasure / "data").read_text() == "precious"


def test_clean_refuses_a_prof_folder_that_is_a_link(project, tmp_path_factory, capsys):
    os.symlink(tmp_path_factory.mktemp("elsewhere"), "prof")
    assert cli.main(["clean", "--remove"]) == 1
    assert "prof is a link" in capsys.readouterr().err


def test_clean_removes_nothing_outside_prof(project):
    Path("important").mkdir()
    with pytest.raises(ConfigError, match="not a plain folder"):
        clean.remove(clean.Orphan(Path("important"), clean.Reason.OLD_KEY, 0))
    with pytest.raises(ConfigError, match="not a plain folder"):
        clean.remove(clean.Orphan(Path("prof/../../important"), clean.Reason.OLD_KEY, 0))
    assert Path("important").is_dir()


def test_clean_removes_nothing_when_the_cases_file_is_wrong(cluttered, capsys):
    Path("config/cases.yaml").write_text("operators: {}\n")
    before = everything()
    assert cli.main(["clean", "--remove"]) == 1
    assert everything() == before
