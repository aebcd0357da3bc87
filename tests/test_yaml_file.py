"""The strict YAML reader: values of YAML 1.2, the lines of keys, and what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts import yaml_file, yaml_values
from scripts.errors import ConfigError


def read(folder: Path, text: str | bytes) -> yaml_file.Document:
    path = folder / "a.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return yaml_file.read(path)


def refusal(folder: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as error:
        read(folder, text)
    return str(error.value).removeprefix(f"{folder}/")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("+3", 3),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1e-6", 1e-6),
        ("1E3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_plain_scalars_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    found = yaml_values.scalar(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "off",
        "y",
        "tRUE",
        "1_000",
        "12:30",
        "2020-01-01",
        "inf",
        "nan",
        "1e",
        "0b1",
        "2^-6",
        "٣",
        ".",
    ],
)
def test_everything_else_is_text(text: str) -> None:
    assert yaml_values.scalar(text) == text


def test_nan_is_a_number() -> None:
    assert math.isnan(yaml_values.scalar(".NaN"))


def test_quoted_and_block_scalars_are_text(tmp_path: Path) -> None:
    assert read(tmp_path, "a: '1'\nb: \"true\"\nc: |\n  2\nd: >-\n  ~\n").value == {
        "a": "1",
        "b": "true",
        "c": "2\n",
        "d": "~",
    }


def test_keys_are_their_text(tmp_path: Path) -> None:
    assert list(read(tmp_path, "{1: a, 1e3: b, true: c, ~: d, 'x y': e}").value) == ["1", "1e3", "true", "~", "x y"]


def test_aliases_are_expanded(tmp_path: Path) -> None:
    document = read(tmp_path, "a: &x {p: [1, 2]}\nb: *x\nc: [*x, &y z, *y]\n")
    assert document.value == {"a": {"p": [1, 2]}, "b": {"p": [1, 2]}, "c": [{"p": [1, 2]}, "z", "z"]}
    assert document.line(("b", "p", 1)) == 2


def test_every_key_has_its_line(tmp_path: Path) -> None:
    document = read(
        tmp_path, "# c\na:\n  b:\n    - 1\n    - c: 2\n      d: {e: 3,\n        f: 4}\ng: |\n  x\n  y\nh: 5\n"
    )
    keys: list[tuple[yaml_values.Key, int]] = [
        (("a",), 2),
        (("a", "b"), 3),
        (("a", "b", 0), 4),
        (("a", "b", 1), 5),
        (("a", "b", 1, "d"), 6),
        (("a", "b", 1, "d", "f"), 7),
        (("h",), 11),
        (("a", "b", 1, "d", "absent"), 6),
        (("absent",), 2),
        ((), 2),
    ]
    assert [(key, document.line(key)) for key, _ in keys] == keys


def test_a_key_given_twice_is_a_problem_at_every_level(tmp_path: Path) -> None:
    document = read(tmp_path, "a: 1\nb: [{c: 1, d: 2,\n  c: {x: 1, x: 2}}]\na: [2]\n'b': 3\n")
    assert document.value == {"a": 1, "b": [{"c": 1, "d": 2}]}
    assert [(problem.line, problem.key[-1]) for problem in document.problems] == [
        (3, "c"),
        (3, "x"),
        (4, "a"),
        (5, "b"),
    ]
    assert '"a" is given twice, on line 1 and on line 4.' in document.problems[2].message


@pytest.mark.parametrize("tag", ["!!python/object:os.system", "!!float", "!mine", "!", "!!map"])
def test_a_tag_is_a_problem(tmp_path: Path, tag: str) -> None:
    document = read(tmp_path, f"a:\n  b: {tag} {'{}' if tag == '!!map' else '1'}\n")
    (problem,) = document.problems
    assert (problem.line, problem.key) == (2, ("a", "b"))
    assert "Remove it" in problem.message


def test_a_merge_key_is_a_problem(tmp_path: Path) -> None:
    document = read(tmp_path, "a: &a {b: 1}\nc:\n  <<: *a\n  d: 1\n")
    assert [(problem.line, problem.key) for problem in document.problems] == [(3, ("c", "<<"))]
    assert document.value["c"] == {"d": 1}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("a: 'x\n", "a.yaml:2:1: not YAML: "),
        ("a: [1\nb: 2\n", "a.yaml:2:2: not YAML: "),
        ("a: b: c", "a.yaml:1:5: not YAML: mapping values are not allowed"),
        ("a:\n\t- 1\n", "a.yaml:2:1: not YAML: "),
        ("a: 1\nb: \x01\n", "a.yaml:2: not YAML: control characters are not allowed"),
        ("é: 1\n\nb: \x07\n", "a.yaml:3: not YAML: "),
        ('a: "\\ud800"', "a.yaml:1:"),
        ("a: 1\nb: '\x85'\n", 'a.yaml:2: the character U+0085 is not read. Write "\\u0085"'),
        (b"a: 1\nb: \xff\n", "a.yaml:2: not UTF-8: byte 0xff"),
        ("a: 1\n---\nb: 2\n", "a.yaml:2: a second document"),
        ("{[a]: b}", "a.yaml:1: a key must be plain text"),
        ("{{a: 1}: b}", "a.yaml:1: a key must be plain text"),
        ("a: &k x\n*k : b\n", "a.yaml:2: a key must be plain text"),
        ("a: &a [*a]", "a.yaml:1: *a refers to nothing"),
        ("a: *b", "a.yaml:1: *b refers to nothing"),
        ("a: " + "9" * 5000, "a.yaml:1: a number of 5000 digits"),
        ("[" * 200 + "]" * 200, "a.yaml:1: nested deeper than 64"),
        ("[" * 5000, "a.yaml:1:"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(tmp_path: Path, text: str | bytes, start: str) -> None:
    assert refusal(tmp_path, text).startswith(start)


def test_a_tab_gets_a_hint(tmp_path: Path) -> None:
    assert "no tabs" in refusal(tmp_path, "a:\n\tb: 1\n")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: 1").value == {"a": 1}


def test_alias_bombs_are_refused_quickly(tmp_path: Path) -> None:
    wide = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    assert "more than 1,000,000 values" in refusal(tmp_path, wide)
    deep = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200))
    assert "nests deeper than 64 levels" in refusal(tmp_path, deep)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    assert "larger than 16 MiB" in refusal(tmp_path, b"#" * (yaml_file.MAX_BYTES + 1))


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    document = read(tmp_path, b"a: 1\r\nb:\r\n  c: x\r\n")
    assert document.value == {"a": 1, "b": {"c": "x"}}
    assert document.line(("b", "c")) == 3


def test_an_empty_file_has_no_value(tmp_path: Path) -> None:
    assert read(tmp_path, "# nothing\n").value is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=15,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_json_is_read_as_json(tmp_path: Path, value: Any) -> None:
    # YAML refuses some control characters that JSON allows, and a lone surrogate cannot be written as UTF-8.
    text = json.dumps(value, ensure_ascii=False)
    try:
        document = read(tmp_path, text)
    except (ConfigError, UnicodeEncodeError):
        assert not all(character.isprintable() or character == " " for character in text)
        return
    assert document.value == value
    assert document.problems == []
