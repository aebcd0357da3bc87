"""docs/numbers.md: every measured part is there, and the command replaces it as a whole."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from benchmarks import host_wall, numbers_page
from scripts import speedup
from tests.records import perf_record, profile_record

PAGE = numbers_page.PAGE.read_text(encoding="utf-8")


def part(name: str) -> str:
    found = re.search(rf"<!-- begin {name} -->\n(.*?)<!-- end {name} -->", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_part_was_measured() -> None:
    assert "**E2E = " in part("example")
    assert "| matmul 448 |" in part("host_wall")
    assert part("aa").count("| two runs, device total |") == len(numbers_page.AA_CASES)


def test_the_worked_examples_e2e_is_the_median_of_its_table() -> None:
    totals = sorted(
        Decimal(cell) for cell in re.findall(r"^\| \d+ \| \d+ \| ([\d.]+)us", part("example"), re.MULTILINE)
    )
    middle = (totals[(len(totals) - 1) // 2] + totals[len(totals) // 2]) / 2
    printed = Decimal(re.search(r"\*\*E2E = ([\d.]+)us", part("example"))[1])
    assert abs(printed - middle) <= Decimal("0.1")


def test_a_part_is_replaced_as_a_whole_and_nothing_else() -> None:
    page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n<!-- begin y -->\n<!-- end y -->\n"
    assert numbers_page.put(page, "x", "new\n") == page.replace("old", "\nnew\n")
    assert numbers_page.put(numbers_page.put(page, "x", "one"), "x", r"\1 two") == page.replace("old", "\n\\1 two\n")
    with pytest.raises(SystemExit, match="has no part z"):
        numbers_page.put(page, "z", "")


def test_the_examples_lines_follow_from_its_record() -> None:
    perf = perf_record(profile_record(iterations=3, flops=4_000_000_000, bytes_moved=20_000_000))
    text = "\n".join([*numbers_page._iterations(perf), *numbers_page._three_times(perf), *numbers_page._work(perf)])
    assert "**E2E = 122.5us**: the median of the device totals, the middle one." in text
    assert "| host wall | 301.5us |" in text
    assert "4,000,000,000 FLOPs" in text


@pytest.mark.parametrize(
    ("factor", "noise", "verdict"), [(1.0, 0.001, "yes"), (1.2, 0.001, "NO"), (1.0, 0.5, "too noisy")]
)
def test_agreement_is_told_from_disagreement_and_from_noise(factor: float, noise: float, verdict: str) -> None:
    theirs = [2000 * (1 + noise * ((7 * k) % 11 - 5) / 5) for k in range(40)]
    ours = [2000 * factor * (1 + noise * ((5 * k) % 11 - 5) / 5) for k in range(40)]
    found = host_wall.Agreement("x", speedup.judge(theirs, ours, paired=True), 0.0)
    assert found.verdict == verdict
    short = host_wall.Agreement("x", speedup.judge([9.0] * 40, [5.0] * 40, paired=True), 0.0)
    assert short.verdict == "below 1 ms"


def test_host_wall_prints_every_golden(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {name: golden for name, golden in host_wall.goldens().items() if "small" in name}
    monkeypatch.setattr(host_wall, "goldens", lambda: chosen)
    assert host_wall.main(["--rounds", "6"]) in (0, 1)
    text = capsys.readouterr().out
    assert "| 600 small operators |" in text
    assert "| below 1 ms |" in text
