"""Which cases a sweep without a target takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.cases import Case, Settings
from scripts.devices import identity
from scripts.devices.identity import DeviceIdentity
from scripts.errors import ConfigError
from scripts.plan import Plan

CASES = (("a_golden", "s", "smoke"), ("a_golden", "p", "p0"), ("b_golden", "p", "p0"), ("c_golden", "x", ""))


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Plan:
    golden = tmp_path / "golden.py"
    golden.write_text("def some_golden(x): return x\n")
    monkeypatch.chdir(tmp_path)
    kind, selection = request.param
    monkeypatch.setattr(identity, "resolve", lambda setting: DeviceIdentity(kind, 0, "a model"))
    cases = [Case(op, name, str(golden), None, "B", (), Settings(), tier=tier) for op, name, tier in CASES]
    return Plan(cases, selection)


def chosen(plan: Plan) -> list[str]:
    return [planned.case.id for planned in plan.sweep()]


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (("cpu", {}), ["a_golden/s", "b_golden/p", "c_golden/x"]),
        (("npu", {}), ["a_golden/p", "b_golden/p", "c_golden/x"]),
        (("cpu", {"tier": "p0"}), ["a_golden/p", "b_golden/p"]),
        (("cpu", {"tier": "p0,smoke"}), ["a_golden/s", "a_golden/p", "b_golden/p"]),
        (("cpu", {"tier": "all"}), ["a_golden/s", "a_golden/p", "b_golden/p", "c_golden/x"]),
        (("cpu", {"match": "a_golden/*"}), ["a_golden/s", "a_golden/p"]),
    ],
    indirect=["plan"],
)
def test_a_sweep_takes_the_tier_that_suits_its_device_unless_told(plan: Plan, expected: list[str]) -> None:
    assert chosen(plan) == expected


@pytest.mark.parametrize("plan", [("cpu", {"tier": "p1"})], indirect=True)
def test_a_selection_without_cases_is_a_mistake_that_names_the_tiers(plan: Plan) -> None:
    with pytest.raises(ConfigError, match=r"tier=p1.*p0, smoke"):
        plan.sweep()


@pytest.mark.parametrize("plan", [("cpu", {})], indirect=True)
def test_a_case_that_is_named_runs_whatever_its_tier(plan: Plan) -> None:
    assert plan.case("a_golden", "p").case.id == "a_golden/p"
