"""Former names: results from before a rename are found, and nothing is measured again for one."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from scripts import cases_file, key
from scripts.cases import Case
from scripts.errors import ConfigError

CASES = """
    operators:
      new_golden:
        golden: golden/new.py
        mode: A
        aliases: [old_golden]
        cases:
          p0: {aliases: [perf_p0, small], inputs: {x: {shape: [2], dtype: float32}}}
          p1: {inputs: {x: {shape: [3], dtype: float32}}}
"""


def load(tmp_path: Path, text: str) -> list[Case]:
    (tmp_path / "golden").mkdir(exist_ok=True)
    (tmp_path / "golden/new.py").write_text("def new(x):\n    return x + 1\n")
    (tmp_path / "cases.yaml").write_text(textwrap.dedent(text))
    return cases_file.load(tmp_path / "cases.yaml", root=tmp_path)


def test_a_case_knows_every_id_that_it_may_have_had(tmp_path: Path) -> None:
    first, second = load(tmp_path, CASES)
    assert first.id == "new_golden/p0"
    assert set(first.aliases) == {
        "new_golden/perf_p0",
        "new_golden/small",
        "old_golden/p0",
        "old_golden/perf_p0",
        "old_golden/small",
    }
    assert second.aliases == ("old_golden/p1",)


def test_aliases_and_renames_do_not_change_the_key(tmp_path: Path) -> None:
    [before, *_] = load(tmp_path, CASES.replace("aliases: [perf_p0, small], ", "").replace("p0:", "perf_p0:"))
    [after, *_] = load(tmp_path, CASES)
    golden, roots = tmp_path / "golden/new.py", (tmp_path,)
    assert key.case_digest(before, golden, roots) == key.case_digest(after, golden, roots)


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("p1", '"p1" is the name of "p1" itself'),
        ("p0", '"p0" is the name of "p0" itself'),
        ("../x", "is not a name"),
    ],
)
def test_an_alias_must_be_a_free_name(tmp_path: Path, alias: str, words: str) -> None:
    with pytest.raises(ConfigError, match="aliases") as caught:
        load(tmp_path, CASES.replace("perf_p0", alias))
    assert words in str(caught.value)


def test_two_cases_cannot_have_been_one(tmp_path: Path) -> None:
    text = CASES.replace("p1: {", "p1: {aliases: [small], ")
    with pytest.raises(ConfigError, match=r'"small" is an alias of "p0" already'):
        load(tmp_path, text)


def test_aliases_are_a_list(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a list of names"):
        load(tmp_path, CASES.replace("[old_golden]", "old_golden"))
