"""Which devices a machine has, told from what its tools print; and the words for what is not there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts import key, machine
from scripts.devices import identity
from scripts.devices.identity import Survey
from scripts.errors import CaseFailure

SMI = "GPU-1a, NVIDIA H200, 570.10\nGPU-2b, NVIDIA H200, 570.10\n"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    identity.survey.cache_clear()
    identity.resolve.cache_clear()
    yield
    identity.plan_for(())
    identity.survey.cache_clear()
    identity.resolve.cache_clear()


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts an `nvidia-smi` on PATH that prints what it is told, beside a CUDA build of torch."""

    def make(output: str) -> None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{output}END\n")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(identity, "_torch_cuda_build", lambda: "13.0")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return make


def test_auto_is_the_cpu_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = identity.resolve("auto")
    assert found.kind == found.name == "cpu"
    assert found.problem == ""
    assert found.versions["torch"]


def test_auto_prefers_the_gpu(smi: Callable[[str], None]) -> None:
    smi(SMI)
    found = identity.resolve("auto")
    assert (found.name, found.model, found.driver) == ("cuda:0", "NVIDIA H200", "570.10")
    assert found.versions == {"torch": found.versions["torch"], "driver": "570.10", "cuda": "13.0"}


def test_an_index_out_of_range_says_which_there_are(smi: Callable[[str], None]) -> None:
    smi(SMI)
    assert identity.resolve("cuda:1").problem == ""
    assert "cuda:0 to cuda:1" in identity.resolve("cuda:7").problem


@pytest.mark.parametrize(
    ("visible", "count"), [("0", 1), ("1,0", 2), ("GPU-2b", 1), ("", 0), ("-1,0", 0), ("1,9,0", 1), ("GPU-", 0)]
)
def test_hidden_gpus_are_not_counted(
    smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, visible: str, count: int
) -> None:
    smi(SMI)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert len(identity.survey("cuda").models) == count


def test_a_gpu_with_a_torch_that_has_no_cuda_is_named_as_such(
    smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    smi(SMI)
    monkeypatch.setattr(identity, "_torch_cuda_build", lambda: "")
    assert "build without CUDA" in identity.resolve("cuda").problem


def test_a_missing_device_says_what_was_looked_for_and_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(identity, "package_version", lambda package: "" if package == "torch_npu" else "2.13.0")
    problem = identity.resolve("npu:0").problem
    assert "torch_npu" in problem
    assert "Found instead: cpu (" in problem
    assert "`auto`" in problem


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": "libascendcl.so: cannot open shared object file"}, "libascendcl.so"),
        ({"devices": 0, "soc": "Ascend910B3", "stand_in": False}, "counts 0 devices"),
    ],
)
def test_an_ascend_runtime_that_does_not_answer_is_quoted(
    monkeypatch: pytest.MonkeyPatch, answer: dict, words: str
) -> None:
    monkeypatch.setattr(identity, "package_version", lambda package: "2.13.0")
    monkeypatch.setattr(identity, "_probe_npu", lambda: answer)
    assert words in identity.resolve("npu").problem


def test_an_npu_is_known_by_chip_driver_and_cann(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "version.cfg").write_text("[runtime_running_version]\nversion=[8.5.0:8.5.0]\n")
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setattr(identity, "package_version", lambda package: "2.13.0")
    monkeypatch.setattr(identity, "_probe_npu", lambda: {"devices": 2, "soc": "Ascend910B3", "stand_in": True})
    found = identity.resolve("npu:1")
    assert (found.name, found.model, found.stand_in, found.problem) == ("npu:1", "Ascend910B3", True, "")
    assert found.versions["cann"] == "8.5.0"
    assert found.versions["torch_npu"] == "2.13.0"
    assert identity.resolve("auto").name == "npu:0"


def test_finding_devices_imports_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from scripts.devices import identity; identity.resolve('auto'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("setting", "index", "lock"), [(None, 1, "npu:1"), ("4,5", 1, "npu:5"), (" 6 , 7", 0, "npu:6"), ("4", 1, "npu:1")]
)
def test_a_device_is_locked_by_its_number_on_the_machine(
    setting: str | None, index: int, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    if setting is not None:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", setting)
    monkeypatch.setattr(identity, "package_version", lambda package: "2.13.0")
    count = len(setting.split(",")) if setting else 2
    monkeypatch.setattr(identity, "_probe_npu", lambda: {"devices": count, "soc": "Ascend910B3", "stand_in": True})
    assert identity.resolve(f"npu:{index}").lock == lock


@pytest.mark.parametrize("visible", [None, "0,1", "GPU-2b", "1", "GPU-2b,GPU-1a", "1,0"])
def test_a_gpu_has_one_lock_whatever_it_is_called(
    smi: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, visible: str | None
) -> None:
    smi(SMI)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    shown = identity.survey("cuda").ids
    index = shown.index("GPU-2b")
    assert identity.resolve(f"cuda:{index}").lock == "cuda:GPU-2b"
    assert identity.resolve(f"cuda:{index}").physical_id == "GPU-2b"


def test_a_part_of_the_cpu_is_a_device_whose_model_says_how_many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "usable_cores", lambda: frozenset(range(8)))
    half, other, one = (identity.resolve(name) for name in ("cpu:0-3", "cpu:4-7", "cpu:2"))
    assert (half.name, half.physical_id, half.lock, list(half.cores)) == ("cpu:0-3", "0-3", "cpu:0-3", [0, 1, 2, 3])
    assert (one.name, one.lock) == ("cpu:2", "cpu:2-2")
    assert half.model.endswith(" × 4")
    assert key.environment_digest(half) == key.environment_digest(other) != key.environment_digest(one)
    assert "may use 0-7" in identity.resolve("cpu:6-9").problem
    assert "lower core first" in identity.resolve("cpu:3-1").problem


def test_the_whole_cpu_is_one_device() -> None:
    assert identity.DeviceIdentity("cpu", 0, "EPYC").lock == "cpu"


@pytest.mark.parametrize("kind", identity.ORDER)
def test_every_version_in_a_key_can_be_named_in_stale_on(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    monkeypatch.setattr(
        identity, "survey", lambda kind: Survey(kind, ("a model",), "570.10", identity.TOOLKIT.get(kind, ""))
    )
    monkeypatch.setattr(identity, "package_version", lambda package: "1.0")
    assert set(identity.versions(kind)) <= set(key.FACTS)


def test_another_process_plans_for_what_a_machine_has_written_of_itself(tmp_path: Path) -> None:
    here = [identity.resolve(setting) for setting in ("auto", "cpu", "cuda", "npu")]
    file = tmp_path / "machine.json"
    machine.save(file)
    told = file.read_text().replace(identity.survey("cpu").models[0], "Another processor × 64")
    machine.plan_for(file)
    again = [identity.resolve(setting) for setting in ("auto", "cpu", "cuda", "npu")]
    assert again == here and [one.versions for one in again] == [one.versions for one in here]
    file.write_text(told)
    machine.plan_for(file)
    assert (identity.resolve("cpu:4-7").model, identity.resolve("cpu:4-7").problem) == ("Another processor × 4", "")
    elsewhere = identity.resolve("cpu")
    assert elsewhere.model == "Another processor × 64"
    with pytest.raises(CaseFailure, match="was planned for another device or other versions"):
        machine.check_key(key.key("0123456789ab", elsewhere), here[1])


def test_gpus_are_counted_as_nvidia_smi_does() -> None:
    """In this process and, since the warm parent hands its environment on, in every measuring one."""
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
