"""`devices`: what may be written, what it means on a machine, and how many profile jobs may run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts import cases_file, key
from scripts.cases import Case, Settings
from scripts.devices import identity, pool
from scripts.devices.identity import DeviceIdentity, Survey
from scripts.devices.pool import Pool
from scripts.errors import ConfigError
from scripts.plan import Plan

MODELS = {"npu": ("Ascend910B3", "Ascend910B3", "Ascend910B1"), "cuda": ("H200",)}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three NPUs, one of another model, a GPU and eight cores."""
    surveys = {
        "npu": Survey("npu", MODELS["npu"], ids=("4", "5", "6")),
        "cuda": Survey("cuda", MODELS["cuda"], ids=("GPU-1a",)),
        "cpu": Survey("cpu", ("EPYC × 8",)),
    }
    monkeypatch.setattr(identity, "survey", surveys.__getitem__)
    monkeypatch.setattr(identity, "usable_cores", lambda: frozenset(range(8)))
    monkeypatch.setattr(identity, "_cpu_model", lambda: "EPYC")
    identity.resolve.cache_clear()
    yield
    identity.resolve.cache_clear()


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (None, ()),
        ("all", ("npu:0", "npu:1", "npu:2")),
        ("npu", ("npu:0", "npu:1", "npu:2")),
        (["npu:0", "npu:2"], ("npu:0", "npu:2")),
        ("npu:0, npu:2", ("npu:0", "npu:2")),
        ("[npu:0,npu:2]", ("npu:0", "npu:2")),
        (["npu:1", "cuda", "cpu:0-3"], ("npu:1", "cuda:0", "cpu:0-3")),
        (["cpu:0", "cpu:1-1"], ("cpu:0", "cpu:1")),
        ("cpu", ("cpu",)),
        (["npu:7"], ("npu:7",)),  # not here: it is taken out of the run, and not a mistake in the file
    ],
)
def test_a_value_of_devices_names_them(value: Any, names: tuple[str, ...]) -> None:
    assert Pool.of(value).names == names


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "the list is empty"),
        ("gpu:0", "there is no device 'gpu:0'"),
        (["auto"], "there is no device 'auto'"),
        ([3], "there is no device 3"),
        (["cpu:3-1"], "there is no device 'cpu:3-1'"),
        (["npu:0", "npu:0"], "npu:0 and npu:0 are the same device"),
        (["cpu:0-3", "cpu:3-4"], "cpu:0-3 and cpu:3-4 are the same device or share cores"),
        (["cpu", "cpu:0"], "share cores"),
        (["all", "npu:0"], "`all` stands alone"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(value: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Pool.of(value)


def test_a_mistake_in_the_cases_file_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "golden.py").write_text("def a_golden(): pass\n")
    file = tmp_path / "cases.yaml"
    file.write_text("operators: {a_golden: {golden: golden.py, mode: B, cases: {one: }}}\ndevices: [npu:0, npu:0]\n")
    with pytest.raises(ConfigError, match=r"cases.yaml:2: devices: npu:0 and npu:0 are the same"):
        cases_file.read(file, root=tmp_path)
    file.write_text(file.read_text().replace("npu:0, npu:0", "npu:0, npu:1"))
    assert cases_file.read(file, root=tmp_path).devices == ["npu:0", "npu:1"]


def plan(devices: Any, *settings: str, tmp_path: Path) -> Plan:
    golden = tmp_path / "a_golden.py"
    golden.write_text("def a_golden(): return None\n")
    cases = [
        Case("a_golden", f"c{k}", str(golden), None, "B", (), Settings(device=setting))
        for k, setting in enumerate(settings)
    ]
    return Plan(cases, pool=Pool.of(devices))


def handed(devices: Any, setting: str, tmp_path: Path) -> tuple[str, ...]:
    return plan(devices, setting, tmp_path=tmp_path).case("a_golden", "c0").devices


@pytest.mark.parametrize(
    ("devices", "setting", "names"),
    [
        (None, "auto", ()),
        (None, "npu:1", ()),
        ("all", "auto", ("npu:0", "npu:1")),  # npu:2 is of another model, and has another key
        (["npu:2", "npu:0"], "auto", ("npu:2",)),
        ("all", "npu:1", ("npu:1",)),
        ("all", "npu:2", ("npu:2",)),
        (["npu:0", "cuda:0"], "cuda", ("cuda:0",)),
        (["npu:0"], "npu:1", ("npu:1",)),  # pinned to one outside of the list
        (["npu:0"], "cpu", ("cpu",)),
        (["cpu:0-1", "cpu:2-3", "cpu:4-7"], "auto", ("cpu:0-1", "cpu:2-3")),
        (["npu:7", "npu:1"], "auto", ("npu:1",)),
        (["npu:7", "npu:8"], "auto", ("npu:7", "npu:8")),  # for the message
    ],
)
def test_a_case_may_be_handed_the_devices_of_one_model_that_its_setting_means(
    devices: Any, setting: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    assert handed(devices, setting, tmp_path) == names


def test_equal_devices_share_a_key_and_others_do_not(tmp_path: Path) -> None:
    planned = plan("all", "auto", "npu:0", "npu:1", "npu:2", tmp_path=tmp_path)
    keys = [planned.case("a_golden", f"c{k}").key.rpartition("-")[2] for k in range(4)]
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_devices_that_no_case_is_handed_are_told(tmp_path: Path) -> None:
    told = list(plan(["npu:0", "npu:2", "npu:7"], "auto", tmp_path=tmp_path).left_out())
    assert told[0] == "npu:2 (Ascend910B1) is handed to no case: cases are for npu:0."
    assert told[1].startswith("npu:7 is taken out of this run: Device npu:7 is not there")


@pytest.mark.parametrize(
    ("devices", "settings", "jobs"),
    [
        (None, ["auto", "npu:1"], 1),
        ("all", ["auto"], 2),  # npu:2 is of another model
        ("all", ["auto", "npu:2"], 3),
        ("all", ["npu:1", "npu:1"], 1),
        ("all", ["npu:1", "npu:2"], 2),
        (["npu:0"], ["auto", "npu:2"], 2),
        (["cpu:0", "cpu:1"], ["auto"], 2),
        (["npu:7", "npu:1"], ["auto"], 1),
        (["npu:7"], ["auto"], 1),
    ],
)
def test_as_many_profile_jobs_run_as_devices_can_be_handed_out(
    devices: Any, settings: list[str], jobs: int, tmp_path: Path
) -> None:
    assert plan(devices, *settings, tmp_path=tmp_path).profile_jobs == jobs


def test_the_peaks_of_a_model_are_measured_on_whichever_of_its_devices_is_free(tmp_path: Path) -> None:
    found = plan("all", "auto", "npu:2", tmp_path=tmp_path).devices
    assert [peaks.devices for peaks in found.values()] == [("npu:0", "npu:1"), ("npu:2",)]
    assert all(key.environment_digest(identity.resolve(p.device)) == name for name, p in found.items())


def test_no_device_is_a_case_of_two_kinds() -> None:
    mixed = Pool.of(["npu:0", "cuda:0"])
    assert [device.kind for device in mixed.fitting("npu")] == ["npu"]
    assert isinstance(mixed.fitting("cuda:0")[0], DeviceIdentity)
    assert not list(pool.problems(["npu:0", "cuda:0"]))
