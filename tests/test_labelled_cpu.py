"""Real captures on this processor in which every row's label is known from elsewhere, and must be found.

The truth has three sources, none of which is the attribution: the golden's kernels in a profile that holds one call of
it and nothing else; the noise's in a profile of the noise alone; and, written down here, how many inputs a golden
mutates, each of which is one restore copy. A step is these three in a row; every row of a capture is compared.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scripts import attribution, parse_csv
from scripts.attribution import RULES
from scripts.errors import CaseFailure
from scripts.status import Status
from tests.cpu import runs
from tests.cpu.runs import Measured, Row

# name → how many inputs it mutates
GOLDENS = {
    "softmax_by_amax": 0,
    "max_of_all": 0,
    "max_of_the_noises_shape": 0,
    "only_max_of_the_noises_shape": 0,
    "max_with_indices": 0,
    "copies": 0,
    "clones": 0,
    "casts": 0,
    "randn": 0,
    "contiguous": 0,
    "matmul": 0,
    "list": 0,
    "one_kernel": 0,
    "adds_in_place": 1,
    "writes_two_inputs": 2,
    "overwrites_by_copy": 1,
    "fills": 1,
}
ITERATIONS = (1, 3, 10)
NAIVE_TYPES = ("aten::max", "aten::amax")


def labelled(measured: Measured, name: str, wanted: object) -> list[tuple[str, int]]:
    """(rule, iteration or -1) of every row in order of time, after checking that the rows are what they should be."""
    restore = GOLDENS[name]
    noise = runs.noise_alone(measured.profile)
    golden = runs.golden_alone(wanted, measured.folder)
    labels: list[tuple[str, int]] = []
    found = measured.rows()
    for k in range(measured.profile.iterations):
        own = [row for step, row in found if step == k + 1]
        assert len(own) == restore + len(noise) + len(golden), f"step {k + 1}: {own}"
        assert all(row.op == "aten::copy_" for row in own[:restore])
        assert own[restore : restore + len(noise)] == noise
        assert own[restore + len(noise) :] == golden
        labels += [("restore", -1)] * restore + [("noise", -1)] * len(noise) + [("golden", k)] * len(golden)
    assert len(labels) == len(found), "a row lies in no step"
    return labels


@pytest.mark.parametrize("iterations", ITERATIONS)
@pytest.mark.parametrize("name", GOLDENS)
def test_every_row_of_a_real_capture_is_right(name: str, iterations: int, tmp_path: Path) -> None:
    wanted = runs.case(name, iterations=iterations)
    measured = runs.run(wanted, tmp_path)
    expected = labelled(measured, name, wanted)
    attributed = attribution.attribute(measured.table, measured.profile)
    order = measured.table.in_time
    rules = [RULES[rule] for rule in attributed.rule[order]]
    iteration = np.where(np.array(rules) == "golden", attributed.iteration[order], -1)
    wrong = [row for row in range(len(expected)) if (rules[row], int(iteration[row])) != expected[row]]
    assert wrong == [], [(measured.rows()[row], rules[row], expected[row]) for row in wrong]


@pytest.mark.parametrize("name", ["softmax_by_amax", "max_of_the_noises_shape", "overwrites_by_copy"])
def test_the_total_is_that_of_the_goldens_rows_where_dropping_by_type_is_wrong(name: str, tmp_path: Path) -> None:
    measured = runs.run(runs.case(name, iterations=3), tmp_path)
    expected = labelled(measured, name, runs.case(name, iterations=3))
    perf = parse_csv.parse(tmp_path)
    table, order = measured.table, measured.table.in_time
    own = [row for row, (rule, _) in zip(order, expected, strict=True) if rule == "golden"]
    assert sum(total.device_total_us for total in perf.iterations) == table.total_us(np.array(own))
    kept = np.array([row for row in order if table.op[row] not in NAIVE_TYPES])
    assert table.total_us(kept) != table.total_us(np.array(own)), "dropping every maximum loses the golden's own"
    first = next(place for place, row in enumerate(order) if table.op[row] in NAIVE_TYPES)
    kept = np.delete(order, first)
    assert table.total_us(kept) > table.total_us(np.array(own)), "dropping the first maximum keeps the other noises"


def test_a_golden_of_views_has_no_kernels(tmp_path: Path) -> None:
    runs.run(runs.case("view_only"), tmp_path)
    with pytest.raises(CaseFailure, match=r"none of the \d+ rows is a kernel of the golden") as caught:
        parse_csv.parse(tmp_path)
    assert caught.value.status is Status.NO_KERNELS


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("more_every_time", "x aten::add (aten::add, CPU"),
        ("max_every_other_time", "lacks 1 x aten::"),
    ],
)
def test_a_golden_whose_kernels_vary_is_incomplete_and_the_difference_is_named(
    name: str, words: str, tmp_path: Path
) -> None:
    runs.run(runs.case(name, iterations=5), tmp_path)
    with pytest.raises(CaseFailure, match="do not show the same kernels") as caught:
        parse_csv.parse(tmp_path)
    assert caught.value.status is Status.INCOMPLETE
    assert words in caught.value.message


def test_a_warm_cache_keeps_its_marker_apart_too(tmp_path: Path) -> None:
    wanted = runs.case("softmax_by_amax", cache="warm")
    measured = runs.run(wanted, tmp_path)
    assert Row("aten::max", "4099") in [row for _, row in measured.rows()]
    expected = labelled(measured, "softmax_by_amax", wanted)
    attributed = attribution.attribute(measured.table, measured.profile)
    assert [RULES[rule] for rule in attributed.rule[measured.table.in_time]] == [rule for rule, _ in expected]
