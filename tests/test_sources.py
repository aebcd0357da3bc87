"""Other people's files as goldens: KernelBench problems, cann-bench operators, goldens made for an NPU."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts import artifacts, cli, discover, key, make_inputs, sources, tensors
from scripts.artifacts import InputsRecord, PerfRecord
from scripts.cases import Argument, Case, Settings
from scripts.cases_file import load
from scripts.devices import identity
from scripts.errors import CaseFailure, ConfigError
from scripts.sources import cann_bench, cann_tables, loading
from scripts.status import Status

ROOT = Path(__file__).resolve().parents[1]
FOREIGN = ROOT / "tests/foreign"
CPU = torch.device("cpu")


def case_of(source: str, path: str, case: str = "default", **changes: Any) -> Case:
    golden = str(FOREIGN / source / path)
    return Case(Path(path).stem, case, golden, None, "B", (), Settings(device="cpu"), source=source, **changes)


def call(case: Case) -> tuple[tuple[Any, ...], dict[str, Any], Any, dict[str, str]]:
    """(args, kwargs, result, facts) of a case, made as the steps make them."""
    opened = sources.open_source(case, (ROOT,))
    args, kwargs = opened.arguments()
    tensors.check_leaves(args, kwargs, opened.parameters)
    function = opened.function(CPU)
    with torch.no_grad():
        return args, kwargs, function(*args, **kwargs), opened.facts


def refusal(case: Case) -> CaseFailure:
    with pytest.raises(CaseFailure) as caught:
        call(case)
    return caught.value


# ---------------------------------------------------------------- KernelBench


def test_a_problem_runs_as_its_own_harness_would_run_it() -> None:
    (x,), _, result, facts = call(case_of("kernelbench", "12_linear_gelu.py"))
    problem = loading.load(FOREIGN / "kernelbench/12_linear_gelu.py", ())
    torch.manual_seed(0)
    model = problem.Model(32, 16)
    torch.manual_seed(0)
    assert torch.equal(x, problem.get_inputs()[0])
    assert torch.equal(result, model(x))
    assert facts == {
        "source": "kernelbench",
        "model": "eval mode",
        "weights": "2 tensors, 0.0 MiB, made on the CPU from seed 0",
    }


def test_inputs_and_weights_follow_the_seed() -> None:
    first, again = call(case_of("kernelbench", "12_linear_gelu.py")), call(case_of("kernelbench", "12_linear_gelu.py"))
    other = call(replace(case_of("kernelbench", "12_linear_gelu.py"), settings=Settings(device="cpu", seed=1)))
    assert torch.equal(first[2], again[2])
    assert not torch.equal(first[0][0], other[0][0]) and not torch.equal(first[2], other[2])


def test_integers_bools_and_numbers_keep_their_kind() -> None:
    args, _, result, _ = call(case_of("kernelbench", "95_cross_entropy.py"))
    assert [getattr(value, "dtype", value) for value in args] == [torch.float32, torch.int64, torch.bool, 0.5]
    assert result.isfinite()


def test_inputs_are_named_after_the_parameters_of_forward() -> None:
    assert sources.open_source(case_of("kernelbench", "95_cross_entropy.py"), ()).parameters == [
        "predictions",
        "targets",
        "mask",
        "factor",
    ]


def test_train_and_eval_mode_are_chosen_and_recorded() -> None:
    (x,), _, in_eval, facts = call(case_of("kernelbench", "7_batch_norm.py"))
    _, _, in_train, trained = call(case_of("kernelbench", "7_batch_norm.py", train=True))
    assert (facts["model"], trained["model"]) == ("eval mode", "train mode")
    assert torch.allclose(in_eval, x, rtol=1e-4)  # running statistics are those of a new model: 0 and 1
    assert torch.allclose(in_train.mean(0), torch.zeros(4), atol=1e-5)


def test_constants_scale_a_problem_down() -> None:
    constants = (Argument("batch_size", is_value=True, value=2),)
    (x,), _, result, facts = call(case_of("kernelbench", "12_linear_gelu.py", constants=constants))
    assert (x.shape, result.shape) == ((2, 32), (2, 16))
    assert facts["constant batch_size"] == "2"


def test_a_constant_that_is_not_there_is_refused() -> None:
    constants = (Argument("batchsize", is_value=True, value=2),)
    failure = refusal(case_of("kernelbench", "12_linear_gelu.py", constants=constants))
    assert failure.status is Status.GOLDEN_FAILED
    assert "Did you mean batch_size?" in failure.message


def test_sizes_are_known_before_anything_is_allocated() -> None:
    small = sources.open_source(case_of("kernelbench", "12_linear_gelu.py"), ())
    assert small.nbytes() == 4 * (8 * 32 + 32 * 16 + 16)  # input, weight, bias
    constants = (Argument("batch_size", is_value=True, value=2**20),)
    large = sources.open_source(case_of("kernelbench", "12_linear_gelu.py", constants=constants), ())
    assert large.nbytes() == 4 * (2**20 * 32 + 32 * 16 + 16 + 2**20 * 16)  # and output
    failure = refusal(case_of("kernelbench", "45_huge.py"))
    assert failure.status is Status.SKIPPED
    assert "8192.00 GiB" in failure.message


def test_a_problem_that_the_meta_device_cannot_build_is_run_and_its_size_told(tmp_path: Path) -> None:
    text = (FOREIGN / "kernelbench/12_linear_gelu.py").read_text()
    path = tmp_path / "asks.py"
    path.write_text(
        text.replace("super().__init__()", "super().__init__()\n        self.n = int(torch.ones(1).item())")
    )
    _, _, result, facts = call(replace(case_of("kernelbench", "x.py"), golden=str(path)))
    assert result.shape == (8, 16)
    assert facts["size"].startswith("not known in advance")


def test_a_missing_package_is_a_reason_to_skip() -> None:
    failure = refusal(case_of("kernelbench", "48_needs_package.py"))
    assert failure.status is Status.SKIPPED
    assert "needs the package a_package_that_is_nowhere" in failure.message


def test_a_package_that_is_missed_only_when_the_model_is_made_is_one_too(tmp_path: Path) -> None:
    text = (FOREIGN / "kernelbench/12_linear_gelu.py").read_text()
    path = tmp_path / "late.py"
    path.write_text(text.replace("super().__init__()", "super().__init__()\n        import a_package_that_is_nowhere"))
    failure = refusal(replace(case_of("kernelbench", "x.py"), golden=str(path)))
    assert (failure.status, "a_package_that_is_nowhere" in failure.message) == (Status.SKIPPED, True)


def test_a_missing_module_of_its_own_is_the_files_fault(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import torch\nfrom helper_of_helper import x\n")
    (tmp_path / "helper_of_helper").mkdir()
    (tmp_path / "problem.py").write_text("from helper import gone\n")
    failure = refusal(replace(case_of("kernelbench", "x.py"), golden=str(tmp_path / "problem.py")))
    assert failure.status is Status.GOLDEN_FAILED


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError("no"), OSError("We couldn't connect to 'https://huggingface.co' to load the files")],
)
def test_a_missing_network_is_a_reason_to_skip(error: Exception) -> None:
    assert loading.failure(Path("p.py"), "cannot be imported", error).status is Status.SKIPPED


def test_a_file_that_is_no_problem_is_refused() -> None:
    failure = refusal(case_of("kernelbench", "no_inputs.py"))
    assert "it has no get_inputs, no get_init_inputs" in failure.message


# ---------------------------------------------------------------- cann-bench


def cann(operator: str, case: str) -> Case:
    return case_of("cann_bench", f"{operator}/golden.py", case)


def test_inputs_come_in_the_order_of_proto_from_their_value_ranges() -> None:
    _, kwargs, result, facts = call(cann("scaled_sum", "1"))
    assert [tuple(part.shape) for part in kwargs["parts"]] == [(4, 8), (2, 8)]
    values = torch.cat(kwargs["parts"])
    assert -2 <= values.min() < -1 and 2 < values.max() <= 3
    assert torch.equal(kwargs["bias"], torch.full((8,), 7.0))
    assert kwargs["index"].dtype == torch.int64 and kwargs["index"].min() >= 0 and kwargs["index"].max() <= 5
    assert kwargs["gate"].dtype == torch.bool
    assert (kwargs["scale"], kwargs["mode"]) == (0.5, "1")  # declared as text, it stays text
    expected = torch.cat(kwargs["parts"])[kwargs["index"]] * 0.5 + 7
    assert torch.equal(result, expected.masked_fill(kwargs["gate"], 0))
    assert facts == {"source": "cann_bench"}


def test_integer_ranges_include_their_end() -> None:
    drawn = cann_bench.draw((10_000,), "int64", (0, 5), 0, "index")
    assert drawn.unique().tolist() == [0, 1, 2, 3, 4, 5]


def test_null_leaves_an_optional_input_out_and_infinities_are_drawn() -> None:
    _, kwargs, _, _ = call(cann("scaled_sum", "2"))
    assert kwargs["bias"] is None and "gate" not in kwargs and kwargs["scale"] == float("inf")
    (part,) = kwargs["parts"]
    assert part.dtype == torch.bfloat16 and part.isinf().any() and not part.isinf().all()
    assert kwargs["index"].tolist() == [1, 1, 1]


def test_an_omission_that_is_not_marked_is_found_by_its_dtype() -> None:
    failure = refusal(cann("scaled_sum", "3"))
    assert failure.status is Status.GOLDEN_FAILED
    assert "entry bias is int64, and proto.yaml allows float32, bfloat16" in failure.message
    assert "null" in failure.message


def test_inputs_that_do_not_fit_are_skipped_before_they_are_drawn() -> None:
    failure = refusal(cann("scaled_sum", "4"))
    assert (failure.status, "4096.00 GiB" in failure.message) == (Status.SKIPPED, True)


def test_tables_in_csv_and_other_parameter_names() -> None:
    _, kwargs, result, _ = call(cann("running_step", "1"))
    assert list(kwargs) == ["weights", "gradient", "rate"]
    assert kwargs["weights"].dtype == torch.float16 and 1 <= kwargs["weights"].min() <= kwargs["weights"].max() <= 2
    assert torch.equal(result, kwargs["weights"] - 0.25 * kwargs["gradient"])
    facts = call(cann("running_step", "2"))[3]
    assert facts["attributes ignored"] == "unused"


def test_get_input_has_the_last_word_on_the_inputs() -> None:
    _, kwargs, result, facts = call(cann("index_pick", "distinct"))
    assert len(kwargs["index"].unique()) == 8 and result.shape == (8, 2)
    assert facts["inputs"] == "drawn, then changed by get_input()"


def test_get_input_may_take_its_tensors_in_order(tmp_path: Path) -> None:
    changes = {
        "def get_input(data, index, packed=None, **kwargs):": "def get_input(data, *rest, **kwargs):",
        "    return data, torch": "    index, packed = rest\n    return data, torch",
    }
    for name in ("proto.yaml", "cases.yaml", "golden.py"):
        text = (FOREIGN / "cann_bench/index_pick" / name).read_text()
        for old, new in changes.items():
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
    _, kwargs, _, _ = call(replace(cann("index_pick", "distinct"), golden=str(tmp_path / "golden.py")))
    assert len(kwargs["index"].unique()) == 8 and "packed" not in kwargs


def test_with_an_entry_for_every_input_the_declared_dtypes_are_no_matter(tmp_path: Path) -> None:
    (tmp_path / "proto.yaml").write_text((FOREIGN / "cann_bench/running_step/proto.yaml").read_text())
    row = "{case_id: 1, input_shape: [[2], [2]], dtype: [float64, int32]}"
    (tmp_path / "cases.yaml").write_text(f"cases:\n- {row}\n")
    assert [tensor.dtype for tensor in cann_tables.case(tmp_path, "1").tensors if tensor] == ["float64", "int32"]


def test_a_dtype_that_torch_does_not_have_is_skipped() -> None:
    failure = refusal(cann("index_pick", "packed"))
    assert (failure.status, "hifloat8" in failure.message) == (Status.SKIPPED, True)


def test_a_case_that_is_not_in_the_table_is_named() -> None:
    assert "has no case_id 9" in refusal(cann("scaled_sum", "9")).message


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{input_shape: [[2], [2], [2]]}", "has 3 entries, and proto.yaml has 2 inputs"),
        ("{input_shape: 4}", "must be a list with an entry per input"),
        ("{input_shape: [[2], [x]], dtype: float32}", "the shape of grad is"),
        ("{input_shape: [[2], [2]], dtype: [float32, float32, float32]}", "has 3 entries for 2 inputs"),
        ("{input_shape: [[2], [2]], dtype: float32, value_range: [[1, 2, 3]]}", "must be [low, high] or one number"),
    ],
)
def test_a_case_that_does_not_fit_its_proto_is_explained(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "proto.yaml").write_text((FOREIGN / "cann_bench/running_step/proto.yaml").read_text())
    (tmp_path / "cases.yaml").write_text(f"cases: [{{case_id: 1, {row[1:]}]\n")
    with pytest.raises(ConfigError) as caught:
        cann_tables.case(tmp_path, "1")
    assert message in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("written", "drawn"),
    [
        ("{bias: [7, 7], parts: [0, 1]}", [((0, 1), (0, 1)), ((7, 7),)]),  # by name
        ("[[[0, 1], [2, 3]], [7]]", [((0, 1), (2, 3)), ((7, 7),)]),  # one per tensor of a list; one number
        ("[[[0, 1]], 7]", [((0, 1), (0, 1)), ((7, 7),)]),
        ('[["-inf", "1e3"], null]', [((-float("inf"), 1000.0),) * 2, (None,)]),
        ("[0, 1]", [((0, 1), (0, 1)), (None,)]),  # the first input's
        ("null", [(None, None), (None,)]),
    ],
)
def test_value_ranges_in_every_spelling(tmp_path: Path, written: str, drawn: list[tuple]) -> None:
    (tmp_path / "proto.yaml").write_text((FOREIGN / "cann_bench/scaled_sum/proto.yaml").read_text())
    row = f"{{case_id: 1, input_shape: [[[4], [2]], [8]], dtype: float32, value_range: {written}}}"
    (tmp_path / "cases.yaml").write_text(f"cases:\n- {row}\n")
    found = cann_tables.case(tmp_path, "1").tensors
    assert [tensor.ranges for tensor in found if tensor] == drawn
    assert found[2:] == (None, None)


def copied(tmp_path: Path) -> Case:
    for name in ("golden.py", "proto.yaml", "cases.yaml"):
        (tmp_path / name).write_text((FOREIGN / "cann_bench/scaled_sum" / name).read_text())
    return replace(cann("scaled_sum", "1"), golden=str(tmp_path / "golden.py"))


def test_a_key_holds_the_cases_own_entry_of_the_table_and_no_other(tmp_path: Path) -> None:
    case = copied(tmp_path)

    def digest() -> str:
        cann_tables._rows.cache_clear()
        cann_tables.proto.cache_clear()
        return key.case_digest(case, Path(case.golden), (ROOT,))

    before = digest()
    table = tmp_path / "cases.yaml"
    text = table.read_text()
    table.write_text(text.replace('attrs: {scale: "inf"}', "attrs: {scale: 4.0}").replace("two parts", "two tensors"))
    assert digest() == before
    table.write_text(text.replace("[[-2, 3]", "[[-2, 4]"))
    assert digest() != before
    table.write_text(text)
    assert digest() == before
    (tmp_path / "proto.yaml").write_text((tmp_path / "proto.yaml").read_text().replace("name: bias", "name: offset"))
    assert digest() != before


def test_a_key_holds_the_modules_beside_a_foreign_golden(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("FACTOR = 1\n")
    (tmp_path / "far_golden.py").write_text("from helper import FACTOR\ndef far_golden(x): return x * FACTOR\n")
    case = replace(case_of("golden", "far_golden.py"), golden=str(tmp_path / "far_golden.py"))
    before = key.case_digest(case, Path(case.golden), (ROOT,))
    (tmp_path / "helper.py").write_text("FACTOR = 22\n")
    assert key.case_digest(case, Path(case.golden), (ROOT,)) != before


# ---------------------------------------------------------------- goldens made for an NPU


def in_a_process(name: str) -> dict[str, Any]:
    """What becomes of a golden of tests/foreign/golden: what stands in for torch_npu stays in its process."""
    code = f"""
import json, torch
from tests import test_sources as t
args, kwargs, result, facts = t.call(t.case_of("golden", {name!r}, {name!r}.removesuffix(".py")))
print(json.dumps([[str(a.device) for a in args], str(result.device), facts, torch.npu.is_available()
    if hasattr(torch, "npu") else None]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(zip(("args", "result", "facts", "available"), json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.fixture(autouse=True)
def without_torch_npu() -> None:
    if identity.package_version("torch_npu"):
        pytest.skip("torch_npu is installed: nothing stands in for it")


def test_a_golden_that_imports_torch_npu_and_fixes_its_device_runs_on_the_cpu() -> None:
    done = in_a_process("npu_only_golden.py")
    assert (done["args"], done["result"], done["available"]) == (["cpu", "cpu"], "cpu", False)
    rebound = done["facts"]["rebound"]
    assert "DEVICE: npu:0 → cpu" in rebound and "DEVICE_NAME: npu:0 → cpu" in rebound
    assert "npu_only_golden(device=): npu:0 → cpu" in rebound
    assert "not installed" in done["facts"]["torch_npu"]


def test_a_golden_that_asks_for_an_npu_gets_no_for_an_answer() -> None:
    done = in_a_process("asks_npu_golden.py")
    assert (done["result"], done["available"]) == ("cpu", False)


def test_a_golden_that_uses_torch_npu_when_it_is_there_meets_no_stand_in() -> None:
    opened = sources.open_source(case_of("golden", "optional_npu_golden.py", "few_rows"), (ROOT,))
    args, _ = opened.arguments()
    assert args[0].shape == (4, 16)
    assert opened.function(CPU)(*args).shape == (4, 16)
    assert opened.facts == {}


def test_what_a_file_fixed_is_put_on_another_device() -> None:
    opened = sources.open_source(case_of("golden", "optional_npu_golden.py", "few_rows"), (ROOT,))
    opened.golden.module.TABLE = torch.ones(2)
    opened.golden.module.MY_DEVICE = torch.device("cpu")
    opened.golden.module.HOST = torch.device("cpu")  # no device by its name, and neither is
    opened.golden.module.NAME = "npu"
    opened.function(torch.device("meta"))
    assert opened.golden.module.TABLE.device.type == "meta"
    assert torch.device("meta") == opened.golden.module.MY_DEVICE
    assert opened.golden.module.NAME == "npu" and torch.device("cpu") == opened.golden.module.HOST
    assert opened.facts["rebound"] == "TABLE: cpu → meta, MY_DEVICE: cpu → meta"


# ---------------------------------------------------------------- through the steps and cases.yaml


def test_a_foreign_case_goes_through_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(device="cpu", warmup=1, iterations=2, noise_mib=1.0)
    constants = (Argument("batch_size", is_value=True, value=4),)
    case = replace(case_of("kernelbench", "12_linear_gelu.py", constants=constants), settings=settings)
    wanted = key.key(key.case_digest(case, Path(case.golden), (ROOT,)), identity.resolve("cpu"))
    folder = tmp_path / wanted
    make_inputs.run(case, wanted, folder, (ROOT,))
    assert [info.name for info in artifacts.read(folder / "inputs.json", InputsRecord).tensors] == ["x"]
    code = (
        "import sys; from pathlib import Path\nfrom scripts import locate_output, parse_csv, profile\n"
        f"folder = Path({str(folder)!r})\nprofile.run(folder, (Path({str(ROOT)!r}),), print)\n"
        "locate_output.run(folder); parse_csv.run(folder)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    perf = artifacts.read(folder / "perf.json", PerfRecord)
    assert {"aten::addmm", "aten::gelu"} <= {row.op for row in perf.ops}
    assert perf.profile.outputs[0].shape == (4, 16)
    assert perf.profile.settings["model"] == "eval mode" and perf.profile.settings["constant batch_size"] == "4"


def test_a_package_that_is_missed_only_when_it_is_called_is_a_reason_to_skip(tmp_path: Path) -> None:
    path = tmp_path / "lazy_golden.py"
    path.write_text(
        "import torch\ndef lazy_golden(x):\n    import a_package_that_is_nowhere\n"
        "def _make_inputs(device):\n    return (torch.ones(3),), {}\n"
    )
    settings = Settings(device="cpu", warmup=0, iterations=1, noise_mib=1.0)
    case = replace(case_of("golden", "lazy_golden.py"), golden=str(path), settings=settings)
    wanted = key.key(key.case_digest(case, path, (ROOT,)), identity.resolve("cpu"))
    make_inputs.run(case, wanted, tmp_path / wanted, (ROOT,))
    command = [sys.executable, "-m", "scripts.profile", str(tmp_path / wanted), "--into", str(tmp_path / "again")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == Status.SKIPPED.exit_code
    assert "needs the package a_package_that_is_nowhere" in done.stderr


CASES = """\
operators:
  linear_gelu:
    golden: {golden}
    source: kernelbench
    mode: {mode}
    {extra}
    cases: {{default: , small: {{constants: {{batch_size: 2}}}}}}
"""


def read(tmp_path: Path, source: str = "kernelbench", mode: str = "B", extra: str = "train: true") -> list[Case]:
    golden = FOREIGN / "kernelbench/12_linear_gelu.py"
    text = CASES.format(golden=golden, mode=mode, extra=extra).replace("source: kernelbench", f"source: {source}")
    (tmp_path / "cases.yaml").write_text(text)
    return load(tmp_path / "cases.yaml", root=tmp_path)


def test_cases_yaml_names_the_source(tmp_path: Path) -> None:
    default, small = read(tmp_path)
    assert (default.source, default.train, default.constants) == ("kernelbench", True, ())
    assert small.constants == (Argument("batch_size", is_value=True, value=2),)


def test_cases_yaml_refuses_what_the_source_does_not_take(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a kernelbench file makes its own inputs\. Write B\."):
        read(tmp_path, mode="A")
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, source="cann_bench")
    assert "operators.linear_gelu.train: belongs to `source: kernelbench`" in str(caught.value)
    assert "operators.linear_gelu.cases.small.constants: belongs to" in str(caught.value)
    with pytest.raises(ConfigError, match=r"Did you mean kernelbench\?"):
        read(tmp_path, source="kernelbunch")


def test_sources_are_those_of_the_schema() -> None:
    from scripts import cases_schema

    allowed = cases_schema.schema()["definitions"]["operator"]["properties"]["source"]["enum"]
    assert tuple(allowed) == sources.NAMES
    for name in sources.NAMES:
        assert (ROOT / f"scripts/sources/{name}.py").is_file()


# ---------------------------------------------------------------- discover


def discovered(*arguments: object) -> int:
    return cli.main(["discover", *map(str, arguments)])


def test_a_folder_of_all_three_forms_becomes_a_cases_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    written = tmp_path / "config/foreign.yaml"
    assert discovered(FOREIGN, "--write", written) == 0
    cases = {case.id: case for case in load(written, root=ROOT)}  # it is a valid cases file
    assert {case.id: case.source for case in cases.values()} == {
        "index_pick/distinct": "cann_bench",
        "index_pick/packed": "cann_bench",
        "running_step/1": "cann_bench",
        "running_step/2": "cann_bench",
        "scaled_sum/1": "cann_bench",
        "scaled_sum/2": "cann_bench",
        "scaled_sum/3": "cann_bench",
        "scaled_sum/4": "cann_bench",
        "asks_npu_golden/default": "golden",
        "npu_only_golden/default": "golden",
        "optional_npu_golden/few_rows": "golden",
        "optional_npu_golden/many_rows": "golden",
        "12_linear_gelu/default": "kernelbench",
        "45_huge/default": "kernelbench",
        "48_needs_package/default": "kernelbench",
        "7_batch_norm/default": "kernelbench",
        "95_cross_entropy/default": "kernelbench",
    }
    assert cases["running_step/1"].golden == "tests/foreign/cann_bench/running_step/golden.py"
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "11 operators found, 4 not taken" in shown.err
    for reason in (
        "broken_factory_golden.py: its factory raised FileNotFoundError",
        "gen_golden.py: no function *_golden; it has generate",
        "without_factory_golden.py: without_factory_golden(x, y, alpha) has no _make_inputs",
        "no_inputs.py: a Model without get_init_inputs and get_inputs",
    ):
        assert f"/{reason}" in shown.err
    assert "48_needs_package.py: a_package_that_is_nowhere is not installed" in shown.err
    assert discovered(FOREIGN, "--write", written) == 1  # never over what is there


def test_entries_are_printed_and_nothing_is_run_when_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(discover.subprocess, "run", lambda *_, **__: pytest.fail("nothing is to be run"))
    assert discovered(FOREIGN, "--no-run") == 0
    shown = capsys.readouterr()
    assert "  12_linear_gelu:\n    golden: tests/foreign/kernelbench/12_linear_gelu.py\n" in shown.out
    assert "optional_npu_golden.py: its factory was not run" in shown.err


def test_operators_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    problem = (FOREIGN / "kernelbench/12_linear_gelu.py").read_text()
    for folder in ("level1", "level2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1_a b.py").write_text(problem)
    (tmp_path / "level2/summary.py").write_text(problem)
    found = discover.look(tmp_path).found
    assert [item.name for item in found] == ["level1_1_a_b", "level2_1_a_b", "summary_operator"]
    (tmp_path / "cases.yaml").write_text(discover.document(found, tmp_path))
    assert len(load(tmp_path / "cases.yaml", root=tmp_path)) == 3


def test_a_factory_that_crashes_or_hangs_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "def {0}_golden(x): return x\ndef _make_inputs(device):\n    import os, signal, time\n    "
    bodies = {"a": "os.kill(os.getpid(), signal.SIGSEGV)", "b": "signal.raise_signal(signal.SIGALRM)", "c": "return 3"}
    for name, body in {**bodies, "d": "return ((), {})"}.items():
        (tmp_path / f"{name}_golden.py").write_text(head.format(name) + body + "\n")
    findings = discover.look(tmp_path)
    assert [item.name for item in findings.found] == ["d_golden"]
    assert [item.reason for item in findings.not_taken] == [
        "its factory ended the process with code -11",
        "its factory did not end within 60 s",
        "its factory returned another form: int",
    ]


def test_a_folder_without_operators_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "setup.py").write_text("print('no')\n")
    (tmp_path / "broken.py").write_text("def (\n")
    assert discovered(tmp_path) == 1
    shown = capsys.readouterr().err
    assert "broken.py: is not Python" in shown and "of no known form: 1 other Python file" in shown
    assert discovered(tmp_path / "gone") == 1
