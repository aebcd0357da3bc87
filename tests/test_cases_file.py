"""cases.yaml: what is read from a right file, and what is said about a wrong one."""

# ruff: noqa: UP031 - str.format would need every brace of the YAML doubled

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path
from typing import Any

import fastjsonschema
import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scripts import cases_file, cases_schema
from scripts.cases import Argument, Case, Settings, TensorSpec
from scripts.dtypes import DTYPES
from scripts.errors import ConfigError

ROOT = Path(__file__).resolve().parent.parent
ONE_CASE = "operators: {op: {golden: golden/f/op_golden.py, mode: A, cases: {c: {inputs: {x: %s}}}}}"
TENSOR = "{shape: [2], dtype: float32}"
FULL = """\
defaults: {warmup: 1, iterations: 7, noise_mib: 16}
operators:
  op:
    golden: golden/f/./op_golden.py
    function: run
    mode: A
    iterations: 5
    timeout_s: 1e2
    cases:
      first:
        tier: p0
        inputs:
          q: {shape: [2, 8], dtype: bfloat16}
          kv:
            - {shape: [3], dtype: int64, init: "ri(0, 9)"}
            - {shape: [], dtype: float8_e8m0fnu, init: 2^-6}
        scalars: {causal: true, day: 2020-01-01, eps: 1e-6, nothing: ~}
        kwargs: {sizes: [1, [2.5]], options: {1: a}}
        iterations: 3
      second: {inputs: {x: {shape: [1], dtype: float32, init: .nan}}, device: "cuda:1", keep_inputs: true}
  factory:
    golden: elsewhere/factory_golden.py
    family: fam
    mode: B
    cases:
      1: {tier: smoke, seed: 9}
      p0:
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    for name in ("golden/f/op_golden.py", "elsewhere/factory_golden.py", "config/keep"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def load(project: Path, text: str | bytes, **overrides: Any) -> list[Case]:
    path = project / "config" / "cases.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return cases_file.load(path, overrides)


def refusal(project: Path, text: str | bytes, **overrides: Any) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(ConfigError) as error:
        load(project, text, **overrides)
    return str(error.value).replace(f"{project}/", "").split("\n  ")


def one_refusal(project: Path, text: str, **overrides: Any) -> str:
    lines = refusal(project, text, **overrides)
    assert len(lines) == 1, lines
    return lines[0]


def test_every_part_of_a_case_is_read(project: Path) -> None:
    first, second, third, fourth = load(project, FULL)
    assert first == Case(
        operator="op",
        case="first",
        golden="golden/f/op_golden.py",
        function="run",
        mode="A",
        arguments=(
            Argument("q", (TensorSpec((2, 8), "bfloat16", "randn"),)),
            Argument(
                "kv",
                (TensorSpec((3,), "int64", "randint(0,9)"), TensorSpec((), "float8_e8m0fnu", "const(0.015625)")),
                is_list=True,
            ),
            Argument("causal", is_value=True, value=True),
            Argument("day", is_value=True, value="2020-01-01"),
            Argument("eps", is_value=True, value=1e-6),
            Argument("nothing", is_value=True, value=None),
            Argument("sizes", is_value=True, value=[1, [2.5]]),
            Argument("options", is_value=True, value={"1": "a"}),
        ),
        settings=Settings(warmup=1, iterations=3, noise_mib=16.0, timeout_s=100.0),
        family="f",
        tier="p0",
    )
    assert first.nbytes == 2 * 8 * 2 + 3 * 8 + 1
    assert second.settings == Settings("cuda:1", 1, 5, 16.0, 0, 100.0, "cold", keep_inputs=True)
    assert second.arguments[0].tensors[0].init == "const(nan)"
    assert (third.id, third.mode, third.arguments, third.tier, third.family) == ("factory/1", "B", (), "smoke", "fam")
    assert third.settings.seed == 9
    assert (fourth.id, fourth.settings.seed, fourth.function) == ("factory/p0", 0, None)


def test_cases_survive_a_round_trip_through_json(project: Path) -> None:
    cases = load(project, FULL)
    assert msgspec.json.decode(msgspec.json.encode(cases), type=list[Case]) == cases


def test_numbers_have_one_type_however_they_are_written(project: Path) -> None:
    for iterations, noise in (("10", "480"), ("1e1", "480.0")):
        (case,) = load(project, f"defaults: {{iterations: {iterations}, noise_mib: {noise}}}\n{ONE_CASE % TENSOR}")
        assert isinstance(case.settings.iterations, int)
        assert isinstance(case.settings.noise_mib, float)


def test_the_schema_and_the_dataclass_have_the_same_defaults(project: Path) -> None:
    assert Settings(**cases_schema.defaults()) == Settings()
    (case,) = load(project, ONE_CASE % TENSOR)
    assert case.settings == Settings()


def test_the_schema_is_a_schema_and_names_every_dtype() -> None:
    jsonschema.Draft7Validator.check_schema(cases_schema.schema())
    assert cases_schema.schema()["definitions"]["tensor"]["properties"]["dtype"]["enum"] == list(DTYPES)


def test_every_level_takes_every_setting() -> None:
    definitions = cases_schema.schema()["definitions"]
    for level in ("operator", "case"):
        for name in cases_schema.defaults():
            expected = {"$ref": f"#/definitions/settings/properties/{name}"}
            assert definitions[level]["properties"][name] == expected


def test_the_command_line_wins_over_every_level(project: Path) -> None:
    cases = load(project, FULL, device="cpu", iterations="4", keep_inputs="false", timeout_s="1e1", seed=5)
    found = {(c.settings.device, c.settings.iterations, c.settings.keep_inputs, c.settings.timeout_s) for c in cases}
    assert found == {("cpu", 4, False, 10.0)}
    assert {case.settings.seed for case in cases} == {5}
    assert {case.settings.warmup for case in cases} == {1}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"iterations": "-3"}, ["iterations", "found -3", "from 1 to"]),
        ({"iterations": "many"}, ["iterations", '"many" (text)', "whole number"]),
        ({"itertions": 3}, ['"itertions"', "Did you mean iterations?"]),
        ({"keep_inputs": "no"}, ["keep_inputs", "Write true or false"]),
        ({"device": "gpu"}, ["device", "`cuda:<index>`"]),
        ({"noise_mib": ".nan"}, ["noise_mib", "nan", "finite"]),
        ({"noise_mib": float("inf")}, ["noise_mib", "at most 65536"]),
        ({"seed": ""}, ["seed", "found nothing"]),
        ({"seed": "9" * 5000}, ["seed", "whole number from 0"]),
        ({"cache": {"a": 1}}, ["cache", "a mapping", "`cold`, `warm`"]),
    ],
)
def test_a_wrong_override_is_refused(project: Path, overrides: dict[str, Any], words: list[str]) -> None:
    line = one_refusal(project, FULL, **overrides)
    assert line.startswith("--config: ")
    assert all(word in line for word in words), line


WRONG_VALUES = [
    ("defaults: {iterations: -1}", ["cases.yaml:1: defaults.iterations", "found -1", "a whole number from 1"]),
    ("defaults: {iterations: 2.5}", ["defaults.iterations", "found 2.5"]),
    ("defaults: {iterations: '3'}", ["defaults.iterations", '"3" (text)', "without quotes"]),
    ("defaults: {iterations: true}", ["defaults.iterations", "found true"]),
    ("defaults: {noise_mib: .nan}", ["defaults.noise_mib", "nan"]),
    ("defaults: {noise_mib: 0}", ["defaults.noise_mib", "above 0"]),
    ("defaults: {keep_inputs: yes}", ["defaults.keep_inputs", '"yes" (text)', "Write true or false"]),
    ("defaults: {device: 'cpu\n\n'}", ["defaults.device", "`auto`"]),
    ("defaults: {device: 1}", ["defaults.device", "found 1", "quotes"]),
    ("defaults: {cache: Cold}", ["defaults.cache", "Did you mean cold?"]),
    ("defaults: {cach: cold}", ['"cach" is not a key', "Allowed: device, warmup", "Did you mean cache?"]),
    ("defaults: [cold]", ["defaults", "(a list)", "a mapping", "without dashes"]),
]
WRONG_TENSORS = [
    ("{shape: [0], dtype: float32}", ["x.shape[0]", "found 0", "whole number from 1"]),
    ("{shape: [2, two], dtype: float32}", ["x.shape[1]", '"two" (text)']),
    ("{shape: [-2], dtype: float32}", ["x.shape[0]", "found -2"]),
    ("{shape: [true], dtype: float32}", ["x.shape[0]", "found true"]),
    ("{shape: [1.5], dtype: float32}", ["x.shape[0]", "found 1.5"]),
    ("{shape: 64, dtype: float32}", ["x.shape", "Write [64]."]),
    ("{shape: [4194304, 4194304, 4194304], dtype: float32}", ["x.shape", "bytes, more than a tensor can have"]),
    ("{dtype: float32}", ["inputs.x", "`shape` is missing"]),
    ("{shape: [1], dtype: bf16}", ["x.dtype", '"bf16"', "Allowed: bfloat16, ", "Write bfloat16."]),
    ("{shape: [1], dtype: torch.float16}", ["x.dtype", "Write float16."]),
    ("{shape: [1], dtype: flaot32}", ["x.dtype", "Did you mean float32"]),
    ("{shape: [1], dtype: 32}", ["x.dtype", "found 32"]),
    ("{shape: [1], dtype: float32, init: rand}", ["x.init", '"rand" is not an init', "Allowed: randn, ", "eye"]),
    ("{shape: [1], dtype: float32, init: true}", ["x.init", "found true"]),
    ("{shape: [1], dtype: int32}", ["x.init", "no init is given", "randint(a,b)"]),
    ("{shape: [1], dtype: bool, init: randn}", ["x.init", "Write bernoulli(p)"]),
    ("{shape: [1], dtype: int8, init: 'randint(0,300)'}", ["x.init", "from 0 to 299", "-128 to 127"]),
    ("{shape: [1], dtype: float32, int: ones}", ['"int" is not a key', "Did you mean init?"]),
    ("[]", ["inputs.x", "is empty"]),
    ("[{shape: [1], dtype: float32}, {shape: [0], dtype: float32}]", ["inputs.x[1].shape[0]", "found 0"]),
    ("3", ["inputs.x", "found 3", "a mapping"]),
]


@pytest.mark.parametrize(("line", "words"), WRONG_VALUES)
def test_a_wrong_default_is_refused(project: Path, line: str, words: list[str]) -> None:
    found = one_refusal(project, f"{line}\n{ONE_CASE % TENSOR}")
    assert all(word in found for word in words), found


@pytest.mark.parametrize(("tensor", "words"), WRONG_TENSORS)
def test_a_wrong_tensor_is_refused(project: Path, tensor: str, words: list[str]) -> None:
    found = one_refusal(project, ONE_CASE % tensor)
    assert found.startswith("config/cases.yaml:1: operators.op.cases.c.inputs.x")
    assert all(word in found for word in words), found


def operator(**changes: str) -> str:
    """An operator's text with some keys changed; "" removes one."""
    keys = {"golden": "golden/f/op_golden.py", "mode": "B", "cases": "{c: {}}"} | changes
    return "operators: {op: {%s}}" % ", ".join(f"{key}: {value}" for key, value in keys.items() if value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (operator(golden="golden/f/op_goldn.py"), ["op.golden", "there is no file", "Did you mean op_golden.py?"]),
        (operator(golden="golden/f"), ["op.golden", "path of a Python file"]),
        (operator(golden="nowhere/x.py"), ["op.golden", "there is no file", "correct the path"]),
        (operator(golden="golden/f/" + "x" * 300 + ".py"), ["op.golden", "name too long", "Correct the path"]),
        (operator(golden='"golden/\\0.py"'), ["op.golden", "path of a Python file"]),
        (operator(golden=""), ["operators.op", "`golden` is missing"]),
        (operator(mode="C"), ["op.mode", "Allowed: A, B."]),
        (operator(mode="b"), ["op.mode", "Did you mean B?"]),
        (operator(mode=""), ["operators.op", "`mode` is missing"]),
        (operator(mode="A"), ["cases.c", "mode A needs `inputs`"]),
        (operator(mode="A", cases="{c: }"), ["cases.c", "mode A needs `inputs`"]),
        (operator(cases="{c: {inputs: {x: %s}}}" % TENSOR), ["c.inputs", "belongs to mode A"]),
        (operator(cases="{c: {scalars: {x: 1}}}"), ["c.scalars", "belongs to mode A"]),
        (operator(cases="{}"), ["op.cases", "is empty"]),
        (operator(cases=""), ["operators.op", "`cases` is missing"]),
        (operator(cases="[c]"), ["op.cases", "(a list)"]),
        (operator(cases="{c: [1]}"), ["cases.c", "(a list)"]),
        (operator(cases="{c: {}, C: {}}"), ["cases.C", '"c" differ only by letter case']),
        (operator(cases="{c: {}, c: {}}"), ["cases.c", "given twice, on line 1 and on line 1"]),
        (operator(cases="{c: {tier: a b}}"), ["c.tier", '"a b" is not a name']),
        (operator(cases="{c: {golden: x.py}}"), ['"golden" is not a key here']),
        (operator(function="a-b"), ["op.function", "Python function"]),
        (operator(function="class"), ["op.function", "word of Python"]),
        (operator(family="../x"), ["op.family", "is not a name"]),
        ("operators: {}", ["operators", "is empty"]),
        ("operators: {op: }", ["operators.op", "found nothing"]),
        ("defaults: {}", ["`operators` is missing"]),
        ("- a", ["cases.yaml:1: found", "a mapping"]),
        ("text", ['found "text"']),
    ],
)
def test_a_wrong_operator_or_case_is_refused(project: Path, text: str, words: list[str]) -> None:
    found = one_refusal(project, text)
    assert found.startswith("config/cases.yaml:1: ")
    assert all(word in found for word in words), found


BAD_NAMES = ["a/b", "..", "a b", '"a\\nb"', ".hidden", "-a", "é", "x" * 101, '""', '"c\\n"']


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_no_safe_file_name_is_refused(project: Path, name: str) -> None:
    assert "is not a name" in one_refusal(project, operator(cases="{%s: {}}" % name))
    assert "is not a name" in one_refusal(project, operator().replace("{op:", "{%s:" % name))


@pytest.mark.parametrize("name", ["summary", "Index", "README", "op.md", "summary.csv"])
def test_an_operator_whose_report_would_collide_is_refused(project: Path, name: str) -> None:
    assert "Rename the operator." in one_refusal(project, operator().replace("{op:", "{%s:" % name))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("inputs: {x: %s}, scalars: {x: 1}" % TENSOR, ["scalars.x", "already given under `inputs`"]),
        ("inputs: {x: %s}, scalars: {a: 1}, kwargs: {a: 1}" % TENSOR, ["kwargs.a", "already given under `scalars`"]),
        ("inputs: {a b: %s}" % TENSOR, ['inputs."a b"', "argument's name"]),
        ("inputs: {if: %s}" % TENSOR, ["inputs.if", "argument's name"]),
        ("inputs: {x: %s}, scalars: {v: .inf}" % TENSOR, ["scalars.v", "found inf", "finite"]),
        ("inputs: {x: %s}, kwargs: {v: [0, {k: .nan}]}" % TENSOR, ["kwargs.v[1].k", "found nan"]),
        ("inputs: {x: %s}, scalars: {v: 18446744073709551616}" % TENSOR, ["scalars.v", "65 bits", "at most 64 bits"]),
        ("inputs: {}", ["c.inputs", "is empty"]),
        ("inputs: [1]", ["c.inputs", "(a list)"]),
    ],
)
def test_a_wrong_argument_is_refused(project: Path, body: str, words: list[str]) -> None:
    found = one_refusal(project, operator(mode="A", cases="{c: {%s}}" % body))
    assert all(word in found for word in words), found


def test_all_mistakes_are_listed_in_the_order_of_the_lines(project: Path) -> None:
    lines = refusal(
        project,
        "defaults:\n  warmup: -1\noperators:\n  op:\n    golden: golden/f/op_golden.py\n    mode: A\n    cases:\n"
        "      good: {inputs: {x: {shape: [1], dtype: float32}}}\n"
        "      a/b:\n        inputs:\n          x:\n            shape:\n              - 2\n              - 0\n"
        "            dtype: float31\n            init: rand\n        warmup: 1\n        warmup: 2\n    bogus: 1\n",
        device="gpu",
    )
    assert lines[0] == "config/cases.yaml cannot be used as it is; 8 mistakes:"
    assert lines[1].startswith("--config: device: ")
    found = [re.match(r"config/cases.yaml:(\d+): ([^ ]+): ", line) for line in lines[2:]]
    assert [match and (int(match[1]), match[2].removeprefix("operators.op.")) for match in found] == [
        (2, "defaults.warmup"),
        (9, 'cases."a/b"'),
        (14, 'cases."a/b".inputs.x.shape[1]'),
        (15, 'cases."a/b".inputs.x.dtype'),
        (16, 'cases."a/b".inputs.x.init'),
        (18, 'cases."a/b".warmup'),
        (19, "bogus"),
    ]


def test_a_file_that_cannot_be_used_at_all_says_why(project: Path) -> None:
    for text in ("", "# nothing\n", "---\n", "~"):
        assert "is empty" in one_refusal(project, text)
    with pytest.raises(ConfigError, match=r"none\.yaml is missing"):
        cases_file.load(project / "config" / "none.yaml")
    with pytest.raises(ConfigError, match=r"cannot be read: .*directory"):
        cases_file.load(project / "config")


def test_paths_are_relative_to_the_root_that_is_given(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "my_cases.yaml"
    path.write_text(FULL)
    assert cases_file.load(path, root=project) == load(project, FULL)


def test_the_projects_own_cases_are_right() -> None:
    cases = cases_file.load(ROOT / "config" / "cases.yaml")
    assert len({case.id for case in cases}) == len(cases) > 0


def test_the_documentation_holds_the_table_made_from_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert cases_file.main(["--doc"]) == 0
    text = (ROOT / "docs" / "cases.md").read_text()
    table = re.search(r"<!-- tables: .*? -->\n\n(.*?)\n<!-- end of tables -->", text, re.DOTALL)
    assert table is not None
    assert table[1] == capsys.readouterr().out
    assert cases_file.main([]) == 2


def test_the_example_of_the_documentation_is_right(project: Path) -> None:
    text = (ROOT / "docs" / "cases.md").read_text()
    example_text = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert example_text is not None
    for golden in re.findall(r"golden: (\S+)", example_text[1]):
        (project / golden).parent.mkdir(parents=True, exist_ok=True)
        (project / golden).touch()
    cases = load(project, example_text[1])
    assert [(case.id, case.settings.iterations) for case in cases] == [
        ("attention_golden/perf_p0_small", 3),
        ("paged_decode_attention/smoke", 10),
        ("paged_decode_attention/p0", 10),
    ]


def test_three_thousand_cases_load_within_seconds(project: Path) -> None:
    case = "inputs: {q: {shape: [2, %d], dtype: bfloat16, init: randn*0.02}, k: {shape: [2, 8], dtype: float32}}"
    cases = "".join(f"      c{index}: {{tier: p0, {case % (index + 1)}}}\n" for index in range(3000))
    start = time.process_time()
    loaded = load(project, f"operators:\n  op:\n    golden: golden/f/op_golden.py\n    mode: A\n    cases:\n{cases}")
    elapsed_s = time.process_time() - start
    assert [case.case for case in loaded] == [f"c{index}" for index in range(3000)]
    # About 0.3 s; the bound leaves room for a slow machine and still catches a tenfold slowdown.
    assert elapsed_s < 3


# Random files: whatever comes, the answer is a list of cases or a ConfigError.

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["A", "B", "randn", "float32", "int8", "golden/f/op_golden.py", "ri(0,3)", "cpu", "cold", "2^-6"]),
)
WORDS = "defaults operators op golden mode cases inputs scalars kwargs x shape dtype init warmup device seed tier"
KEYS = st.sampled_from(WORDS.split(" "))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def answer(project: Path, text: str | bytes) -> None:
    try:
        cases = load(project, text)
    except ConfigError as error:
        assert str(error)
        return
    assert msgspec.json.decode(msgspec.json.encode(cases), type=list[Case]) == cases


@RELAXED
@given(data=st.binary(max_size=80))
def test_random_bytes_give_nothing_but_a_config_error(project: Path, data: bytes) -> None:
    answer(project, data)


@RELAXED
@given(text=st.text(alphabet=st.sampled_from(list("ab:-?,[]{}&*!|>'\"%@#<~\t\n 01.e")), max_size=60))
@example(text="&a [*a]")
@example(text="? [a]\n: b")
@example(text="*a : b")
@example(text="!!python/object:os.system x")
def test_random_yaml_signs_give_nothing_but_a_config_error(project: Path, text: str) -> None:
    answer(project, text)


@RELAXED
@given(tree=TREES)
def test_random_trees_give_nothing_but_a_config_error(project: Path, tree: Any) -> None:
    answer(project, yaml.dump(tree, allow_unicode=True))


@RELAXED
@given(tree=TREES, place=st.integers(min_value=0), key=KEYS, drop=st.booleans())
def test_a_right_file_with_one_random_change_gives_nothing_but_a_config_error(
    project: Path, tree: Any, place: int, key: str, drop: bool
) -> None:
    document = yaml.load(FULL, yaml.BaseLoader)
    document["operators"]["op"]["cases"]["first"]["inputs"]["q"]["shape"] = [2, 8]
    holders = [item for item in walk(document) if isinstance(item, dict)]
    holder = holders[place % len(holders)]
    names = [*holder, key]
    name = names[place // len(holders) % len(names)]
    if drop:
        holder.pop(name, None)
    else:
        holder[name] = tree
    answer(project, yaml.dump(document, allow_unicode=True))


def walk(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value, *itertools.chain.from_iterable(map(walk, inner))]


@RELAXED
@given(tree=TREES, definition=st.sampled_from(["settings", "operator", "case", "tensor"]))
def test_both_validators_of_the_schema_agree(tree: Any, definition: str) -> None:
    part = {"$ref": f"#/definitions/{definition}", "definitions": cases_schema.schema()["definitions"]}
    try:
        fastjsonschema.compile(part, use_default=False)(tree)
        fast = True
    except fastjsonschema.JsonSchemaException:
        fast = False
    assert fast == jsonschema.Draft7Validator(part).is_valid(tree)
    assert fast == (cases_schema.problems(tree, definition) == [])
