"""The rule for names, and what a mistyped name may have meant."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts import names


@pytest.mark.parametrize("name", ["a", "7", "perf_p0_small", "v1.2-rc", "A" * 100, "con..x"])
def test_right_names_pass(name: str) -> None:
    assert names.problem(name) == ""


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "_a", "-a", "a/b", "a\\b", "a b", "a\n", "a\0", "é", "A" * 101])
def test_wrong_names_are_told_the_rule(name: str) -> None:
    assert names.RULE in names.problem(name)
    assert names.operator_problem(name) == names.problem(name)


@settings(max_examples=200, deadline=None)
@given(name=st.text(max_size=110))
def test_an_accepted_name_is_one_path_component_on_one_line(name: str) -> None:
    problem = names.problem(name)
    assert len(problem.splitlines()) <= 1
    if not problem:
        assert name.isascii() and name[0].isalnum() and 0 < len(name) <= 100
        assert not set(name) & set('/\\ :*?"<>|\t\n')


def test_the_nearest_names_come_best_first() -> None:
    cases = ["attention/p0_small", "attention/p0_large", "softmax/p0"]
    assert names.nearest("attention/p0_smal", cases)[0] == "attention/p0_small"
    assert names.nearest("ATTENTION/P0_LARGE", cases)[0] == "attention/p0_large"
    assert names.nearest("xyz", cases) == []
    assert len(names.nearest("p", ["p1", "p2", "p3", "p4"])) <= 3


def test_both_spellings_of_a_name_are_found() -> None:
    assert set(names.nearest("smoke", ["Smoke", "SMOKE"])) == {"Smoke", "SMOKE"}


def test_quoted_text_stays_short_and_on_one_line() -> None:
    assert names.quote("a\nb") == '"a\\nb"'
    assert names.quote("x" * 1000) == f'"{"x" * 59}…"'
