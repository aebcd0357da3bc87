"""A golden against candidates on this machine, and two results of the same cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
import torch

from scripts import artifacts, candidates, cli, compare_results, compare_tables, result_identity
from scripts.aa_record import BETWEEN_RUNS, IN_ONE_SESSION, AaRecord, AaSeries, series_of
from scripts.artifacts import DeviceInfo, KernelRow, TensorInfo
from scripts.candidates import Tolerance
from scripts.compare_results import Result
from scripts.errors import ConfigError, GoldenprofError
from scripts.speedup import Verdict
from tests.records import perf_record, profile_record

CASES = """
defaults: {warmup: 1, iterations: 8, noise_mib: 0.5, device: cpu}
operators:
  slow_golden:
    golden: golden/slow_golden.py
    mode: A
    aliases: [old_golden]
    cases:
      tanh: {inputs: {x: {shape: [256, 256], dtype: float32}}}
  inplace_golden:
    golden: golden/slow_golden.py
    function: inplace_golden
    mode: A
    cases:
      add: {inputs: {x: {shape: [64], dtype: float32}}}
"""
GOLDENS = """
import torch

def slow_golden(x):
    for _ in range(60):
        x = x.tanh()
    return x

def inplace_golden(x):
    x.add_(1)
    return x * 2
"""
LATE = """
import runpy

right = runpy.run_path("golden/slow_golden.py")["slow_golden"]

calls = {"fails": 0, "changes": 0}

def fails(x):
    calls["fails"] += 1
    if calls["fails"] > 7:
        raise ValueError("later")
    return right(x)

def changes(x):
    calls["changes"] += 1
    return right(x) if calls["changes"] < 7 else x
"""
CANDIDATES = """
import os
import signal
import torch
from golden.slow_golden import slow_golden

calls = 0

def interrupted(x):
    global calls
    calls += 1
    if calls > int(os.environ["CALLS_BEFORE_CTRL_C"]):
        os.kill(os.getpid(), signal.SIGINT)
    return slow_golden(x)

def lookup(x, known={}):
    key = x.data_ptr()
    if key not in known:
        known[key] = slow_golden(x)
    return known[key].clone()

def same(x):
    return slow_golden(x)

def off_by_little(x):
    return slow_golden(x) * 1.001

def another_dtype(x):
    return slow_golden(x).double()

def two(x):
    return slow_golden(x), x

def broken(x):
    raise ValueError("no kernel for you")

def forgets_to_write(x):
    return (x + 1) * 2

def writes(x):
    x += 1
    return 2 * x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "config").mkdir()
    (tmp_path / "golden").mkdir()
    (tmp_path / "config/cases.yaml").write_text(CASES)
    (tmp_path / "golden/slow_golden.py").write_text(GOLDENS)
    # The project's own package golden is imported already: the candidates load this file by its path.
    (tmp_path / "mine.py").write_text(
        CANDIDATES.replace(
            "from golden.slow_golden import slow_golden",
            "import runpy\nslow_golden = runpy.run_path('golden/slow_golden.py')['slow_golden']",
        )
    )
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(["compare", *arguments])
    found = capsys.readouterr()
    return code, found.out + found.err


# ---------------------------------------------------------------- candidates


def test_a_candidate_that_does_nothing_is_faster_and_the_table_says_by_how_much(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = compare(capsys, "slow_golden/tanh", "--candidate", "mine.py:lookup", "--rounds", "15")
    assert code == 0, text
    header = "| Case | Shape | DType | golden (us) | candidate (us) | speed-up | 95 % interval | verdict |"
    lines = text.splitlines()
    [row] = [line for line in lines[lines.index(header) :] if line.startswith("| slow")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["slow_golden/tanh", "{x: (256, 256)}", "{x: torch.float32}"]
    assert cells[-1] == "FASTER"
    assert float(cells[5].rstrip("x")) == pytest.approx(float(cells[3]) / float(cells[4]), rel=0.1)
    assert "Speed-up over 1 case: geometric mean" in text


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        ("off_by_little", "out: Tensor-likes are not close!"),
        ("another_dtype", "out: The values for attribute 'dtype' do not match"),
        ("two", "the result lacks out and has out[0], out[1] more"),
        ("broken", "broken raised ValueError in the first call (mine.py:{line}): no kernel for you"),
    ],
)
def test_a_candidate_that_returns_something_else_is_not_compared(
    project: Path, capsys: pytest.CaptureFixture[str], candidate: str, words: str
) -> None:
    code, text = compare(capsys, "slow_golden/tanh", "--candidate", f"mine.py:{candidate}", "--rounds", "6")
    assert code == 1, text
    line = (project / "mine.py").read_text().partition("no kernel for you")[0].count("\n") + 1
    assert f"NOT COMPARED: {words.format(line=line)}" in text
    assert "Speed-up over" not in text


def test_a_candidate_that_fails_or_changes_later_costs_the_others_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "late.py").write_text(LATE)
    specs = [f"late.py:{name}" for name in ("right", "fails", "changes")]
    code, text = compare(capsys, "slow_golden/tanh", *(f"--candidate={spec}" for spec in specs), "--rounds", "6")
    assert code == 1, text
    right, fails, changes = text.split("## Candidate: ")[1:]
    assert "NOT COMPARED" not in right
    assert "NOT COMPARED: fails raised ValueError in iteration" in fails
    assert "NOT COMPARED: after it was measured, out: Tensor-likes are not close" in changes


@pytest.mark.parametrize("after", [0, 7], ids=["while it is checked", "while it is measured"])
def test_an_interrupt_ends_it_and_blames_nobody(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setenv("CALLS_BEFORE_CTRL_C", str(after))
    assert compare(capsys, "slow_golden/tanh", "--candidate", "mine.py:interrupted", "--rounds", "20") == (
        130,
        "slow_golden/tanh …\n",
    )


def test_the_tolerance_can_be_given(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "slow_golden/tanh",
        "--candidate",
        "mine.py:off_by_little",
        "--rounds",
        "6",
        "--rtol",
        "0.01",
        "--atol",
        "0",
    ]
    code, text = compare(capsys, *arguments)
    assert code == 0
    assert "checked against the golden's with rtol 0.01, atol 0" in text


def test_inputs_that_the_golden_writes_are_checked_and_restored_for_everybody(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["inplace_golden/add", "--rounds", "6"]
    code, text = compare(capsys, *arguments, "--candidate", "mine.py:forgets_to_write")
    assert code == 1
    assert "NOT COMPARED: input x: Tensor-likes are not close!" in text
    assert compare(capsys, *arguments, "--candidate", "mine.py:writes")[0] == 0
    code, text = compare(capsys, "slow_golden/tanh", "--rounds", "6", "--candidate", "mine.py:writes")
    assert "NOT COMPARED: it changes x, which the golden leaves alone" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["slow_golden/tanh", "--candidate", "mine.py:sam"], "mine.py has no function 'sam'"),
        (["slow_golden/tanh", "--candidate", "nothing"], "is no candidate. Allowed are module:function"),
        (["slow_golden/tanh", "--candidate", "none.py:f"], "'none.py:f' names. Did you mean mine.py?"),
        (["slow_golden/tanh", "--candidate", "no_such_module:f"], "cannot be imported: ModuleNotFoundError"),
        (["slow_golden/tan", "--candidate", "mine.py:same"], "Did you mean slow_golden/tanh"),
        (["slow_golden/tanh", "--candidate", "mine.py:same", "--rounds", "3"], "too few for a verdict"),
        (["slow_golden/tanh", "--candidate", "mine.py:same", "--rtol", "1"], "belong together"),
        (["slow_golden/tanh"], "Give two results to compare"),
        (["nowhere", "nowhere"], "nowhere does not exist"),
    ],
)
def test_a_wrong_command_line_ends_in_a_sentence(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    code, text = compare(capsys, *arguments)
    assert code == 1
    assert words in text


def test_outputs_that_are_nan_in_both_are_the_same() -> None:
    nan = {"out": torch.tensor([float("nan"), 1.0])}
    assert candidates.difference(nan, {"out": nan["out"].clone()}, Tolerance()) == ""


def test_eight_bit_floats_must_be_equal() -> None:
    x = torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)
    assert candidates.difference({"out": x}, {"out": x.clone()}, Tolerance()) == ""
    assert "not equal" in candidates.difference({"out": x}, {"out": (x.float() * 1.2).to(x.dtype)}, Tolerance())


def test_torch_compile_is_a_candidate() -> None:
    golden = torch.nn.functional.silu
    assert candidates.load("torch.compile", golden) is not golden
    assert candidates.load("torch.nn.functional:silu", golden) is golden


# ---------------------------------------------------------------- results


def result(path: Path, **changes: object) -> Result:
    profile = profile_record(iterations=12, key="0123456789ab-npu-1a2b3c4d", **changes)
    perf = perf_record(profile)
    path.parent.mkdir(parents=True, exist_ok=True)
    artifacts.write(path, perf)
    return Result(path, perf)


def slower(found: Result, factor: str) -> Result:
    """The same result with every iteration and its matrix product slower."""
    for total in found.perf.iterations:
        total.device_total_us *= Decimal(factor)
    for row in found.perf.kernels:
        if row.op == "MatMulV2":
            row.median_us *= 2
    artifacts.write(found.path, found.perf)
    return found


def test_equal_results_differ_in_nothing(tmp_path: Path) -> None:
    first, second = result(tmp_path / "a/perf.json"), result(tmp_path / "b/perf.json")
    assert result_identity.differences(first.perf, second.perf) == []
    assert result_identity.surroundings(first.perf, second.perf) == []


@pytest.mark.parametrize(
    ("facet", "changes"),
    [
        ("case", {"case": "other"}),
        ("inputs", {"inputs": [TensorInfo("q", (2, 8, 512, 64), "bfloat16", 1048576, sha256="f" * 64)]}),
        ("inputs", {"scalars": {"causal": True}}),
        ("cache", {"cache": "warm"}),
        ("settings", {"warmup": 7}),
        ("device", {"device": DeviceInfo("npu", "npu:0", "Ascend950", physical_id="3")}),
        ("versions", {"versions": {"torch": "2.14.0", "torch_npu": "2.13.0", "python": "3.11.2"}}),
    ],
)
def test_unequal_identity_is_an_error_unless_it_is_said(tmp_path: Path, facet: str, changes: dict[str, object]) -> None:
    first, second = result(tmp_path / "a/perf.json"), result(tmp_path / "b/perf.json", **changes)
    found = result_identity.differences(first.perf, second.perf)
    assert {difference.facet for difference in found} == {facet}
    with pytest.raises(GoldenprofError, match=rf"not of one identity: {facet}: .*--across {facet}"):
        compare_results.compare([(first, second)], [], 0.02, {})
    [pair] = compare_results.compare([(first, second)], [facet], 0.02, {})
    assert pair.identity == found


def test_other_code_is_told_apart_from_other_inputs(tmp_path: Path) -> None:
    first, second = result(tmp_path / "a/perf.json"), result(tmp_path / "b/perf.json")
    second.perf.profile.key = "ffffffffffff-npu-1a2b3c4d"
    assert [one.facet for one in result_identity.differences(first.perf, second.perf)] == ["code"]
    second.perf.profile.cache = "warm"
    assert [one.facet for one in result_identity.differences(first.perf, second.perf)] == ["cache"]


def test_the_documentation_lists_every_facet() -> None:
    text = (Path(__file__).resolve().parent.parent / "docs/compare.md").read_text(encoding="utf-8")
    for facet, meaning in result_identity.FACETS.items():
        assert f"| `{facet}` | {meaning} |" in text


def test_an_unknown_facet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GoldenprofError, match=r"--across knows no version\. Allowed.*: case \(.*; inputs \("):
        result_identity.require_comparable([], ["version"], "x")


def test_a_report_of_two_results_lists_identity_then_times_then_kernels(tmp_path: Path) -> None:
    first = result(tmp_path / "a/perf.json")
    second = slower(result(tmp_path / "b/perf.json", versions={"torch": "2.14.0"}), "1.5")
    second.perf.kernels.append(KernelRow("Cast", "Cast_1", "AI_VECTOR_CORE", "8,8", 2, Decimal("3.5")))
    pairs = compare_results.compare([(first, second)], ["versions"], 0.02, {})
    text = compare_tables.results_report(pairs, [], ("a", "b"))
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## What differs in identity", "## Times", "## Kernels", "## Surroundings"]
    assert "versions: torch is 2.13.0 against 2.14.0" in text
    assert "| 0.67x |" in text and "| SLOWER |" in text
    assert "| Cast (Cast_1) on AI_VECTOR_CORE, 8,8 | 0 → 2 | 0.0 | 7.0 | new |" in text
    assert "| MatMulV2 (MatMulV2_1) on AI_CORE, shapes unknown | 2 | 90.4 | 180.8 | +100.0 % |" in text
    assert "no A/A test of this case is at hand" in text


def test_an_aa_test_of_the_case_widens_the_gate_between_runs(tmp_path: Path) -> None:
    first, second = result(tmp_path / "a/perf.json"), slower(result(tmp_path / "b/perf.json"), "1.08")
    assert compare_results.compare([(first, second)], [], 0.02, {})[0].times.verdict is Verdict.SLOWER
    series = [AaSeries(BETWEEN_RUNS, 20, 3, 0, 17, 0.0, 0.2, 0.1, 0.15, 0.3)]
    device = DeviceInfo("npu", "npu:0", "Ascend910B3")
    record = AaRecord("attention_golden", "perf_p0_small", "", device, "", 12, 0.02, ("1", "1"), series)
    artifacts.write(tmp_path / "a/aa.json", record)
    [pair] = compare_results.compare([(first, second)], [], 0.02, {})
    assert (pair.gate, pair.times.verdict) == (0.15, Verdict.UNDECIDED)
    assert "two runs of the same thing differ by up to 15 % here" in pair.times.reason
    [pair] = compare_results.compare([(first, slower(second, "1.3"))], [], 0.02, {})
    assert pair.times.verdict is Verdict.SLOWER


@pytest.mark.parametrize(("pairs", "rounds", "words"), [(2, 12, "its 2 pairs"), (20, 6, "its runs had 6 samples")])
def test_an_aa_test_that_is_too_small_is_not_gone_by(tmp_path: Path, pairs: int, rounds: int, words: str) -> None:
    first, second = result(tmp_path / "a/perf.json"), slower(result(tmp_path / "b/perf.json"), "1.5")
    series = [AaSeries(BETWEEN_RUNS, pairs, 0, 0, pairs, 0.0, 0.8, 0.1, 0.02, 0.05)]
    device = DeviceInfo("npu", "npu:0", "Ascend910B3")
    record = AaRecord("attention_golden", "perf_p0_small", "", device, "", rounds, 0.02, ("1", "1"), series)
    artifacts.write(tmp_path / "a/aa.json", record)
    [pair] = compare_results.compare([(first, second)], [], 0.02, {})
    assert pair.times.verdict is Verdict.SLOWER
    assert words in pair.gate_reason
    second.perf.device_total = replace(second.perf.device_total, relative_iqr=0.3)
    [pair] = compare_results.compare([(first, second)], [], 0.02, {})
    assert pair.times.verdict is Verdict.UNDECIDED


def test_a_machine_on_which_no_gate_is_quiet_gets_no_verdict(tmp_path: Path) -> None:
    first, second = result(tmp_path / "a/perf.json"), slower(result(tmp_path / "b/perf.json"), "3")
    series = [AaSeries(BETWEEN_RUNS, 20, 9, 0, 11, 0.2, 0.7, 9.0, None, None)]
    device = DeviceInfo("npu", "npu:0", "Ascend910B3")
    record = AaRecord("attention_golden", "perf_p0_small", "", device, "", 12, 0.02, ("1", "1"), series)
    artifacts.write(tmp_path / "b/aa.json", record)
    [pair] = compare_results.compare([(first, second)], [], 0.02, {})
    assert pair.times.verdict is Verdict.UNDECIDED
    assert "no gate that stays quiet" in pair.times.reason


def test_restless_runs_get_no_verdict_without_an_aa_test(tmp_path: Path) -> None:
    first, second = result(tmp_path / "a/perf.json"), slower(result(tmp_path / "b/perf.json"), "1.5")
    second.perf.device_total = replace(second.perf.device_total, relative_iqr=0.3)
    [pair] = compare_results.compare([(first, second)], [], 0.02, {})
    assert pair.times.verdict is Verdict.UNDECIDED
    assert "it would be SLOWER" in pair.times.reason and "spreads by 30 %" in pair.times.reason


def test_whole_folders_are_paired_by_case_and_renames_by_their_aliases(tmp_path: Path) -> None:
    result(tmp_path / "a/prof/old_golden/tanh/k/perf.json", operator="old_golden", case="tanh")
    result(tmp_path / "a/prof/gone_golden/x/k/perf.json", operator="gone_golden", case="x")
    result(tmp_path / "b/prof/slow_golden/tanh/k/perf.json", operator="slow_golden", case="tanh")
    result(tmp_path / "b/prof/slow_golden/new/k/perf.json", operator="slow_golden", case="new")
    sides = compare_results.find(tmp_path / "a"), compare_results.find(tmp_path / "b")
    current = {"old_golden/tanh": "slow_golden/tanh"}
    pairs, alone = compare_results.pair_up(*sides, current)
    assert [(a.id, b.id) for a, b in pairs] == [("old_golden/tanh", "slow_golden/tanh")]
    assert alone == ["gone_golden/x", "slow_golden/new"]
    [pair] = compare_results.compare(pairs, [], 0.02, current)
    assert pair.identity == []
    assert compare_results.pair_up(*sides, {})[0] == []


def test_of_several_results_of_a_case_the_newest_is_taken(tmp_path: Path) -> None:
    result(tmp_path / "p/k1/perf.json", started_at="2026-06-09T10:00:00.000000+00:00")
    result(tmp_path / "p/k2/perf.json", started_at="2026-06-10T10:00:00.000000+00:00")
    [found] = compare_results.find(tmp_path / "p")
    assert found.path.parent.name == "k2"
    # Half an hour later by the clock on the wall, half an hour earlier in truth: summer time had ended.
    result(tmp_path / "p/k3/perf.json", started_at="2026-10-25T02:45:00.000000+02:00")
    result(tmp_path / "p/k4/perf.json", started_at="2026-10-25T02:15:00.000000+01:00")
    [found] = compare_results.find(tmp_path / "p")
    assert found.path.parent.name == "k4"
    old = {"operator": "slow_golden", "started_at": "2026-10-24T02:00:00+00:00"}
    result(tmp_path / "r/new/perf.json", operator="fast_golden", case="perf_p0_small")
    result(tmp_path / "r/old/perf.json", case="perf_p0_small", **old)
    both, current = compare_results.find(tmp_path / "r"), {"slow_golden/perf_p0_small": "fast_golden/perf_p0_small"}
    [(first, _)], _ = compare_results.pair_up(both, [*both, found], current)
    assert first.path.parent.name == "old"  # the newest under either name, whichever comes last in the folder
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"holds no perf\.json"):
        compare_results.find(tmp_path / "empty")


def test_the_command_compares_two_files(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result(project / "a/perf.json")
    slower(result(project / "b/perf.json", versions={"torch": "2.14.0"}), "1.5")
    code, text = compare(capsys, "a/perf.json", "b")
    assert code == 1 and "--across versions" in text
    code, text = compare(capsys, "a/perf.json", "b", "--across", "versions")
    assert code == 0 and "SLOWER" in text


# ---------------------------------------------------------------- A/A


def test_series_counts_false_verdicts_and_finds_the_smallest_change() -> None:
    quiet = [Decimal(100 + k % 3) / 100 for k in range(12)]
    shifted = [sample * Decimal("1.2") for sample in quiet]
    found = series_of(IN_ONE_SESSION, [(quiet, quiet)] * 19 + [(quiet, shifted)], 0.02, paired=True)
    assert (found.pairs, found.false, found.same) == (20, 1, 19)
    assert found.largest == pytest.approx(1 / 6)
    assert found.quiet_gate == 0.02  # one of twenty is tolerated
    assert found.smallest_change == 0.03
    assert found.false_low < 0.05 < found.false_high
    loud = series_of(IN_ONE_SESSION, [(quiet, shifted)] * 4, 0.02, paired=True)
    assert (loud.false, loud.quiet_gate) == (4, 0.2)


def test_aa_runs_a_case_and_keeps_the_result_where_comparisons_find_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["aa", "slow_golden/tanh", "--pairs", "2", "--rounds", "6"]) == 0
    text = capsys.readouterr().out
    assert "| slow_golden/tanh | in turns in one session, host wall | 2 × 6 |" in text
    assert "| slow_golden/tanh | two runs, device total | 2 × 6 |" in text
    [path] = project.glob("prof/slow_golden/tanh/*/aa.json")
    record = artifacts.read(path, AaRecord)
    assert [(one.what, one.pairs) for one in record.series] == [(IN_ONE_SESSION, 2), (BETWEEN_RUNS, 2)]
    assert not list(project.glob("prof/.aa-*")), "its own captures are gone"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["aa", "x", "--pairs", "0"], "--pairs 0"),
        (["aa", "x", "--rounds", "2"], "--rounds 2"),
        (["aa", "x", "--gate", "nan"], "--gate nan"),
        (["compare", "x", "--rounds", "2"], "--rounds 2"),
        (["compare", "x", "--gate", "-3"], "--gate -3"),
        (["compare", "x", "--rtol", "nan", "--atol", "0"], "--rtol nan"),
        (["compare", "x", "--rtol", "0", "--atol", "-1"], "--atol -1"),
    ],
)
def test_a_wrong_number_is_refused_by_its_option_and_value(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 1
    assert words in capsys.readouterr().err
