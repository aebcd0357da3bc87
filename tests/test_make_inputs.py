"""Step 1: what is drawn, what is written about it, and that it can be drawn again bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from scripts import artifacts, make_inputs, memory, tensors
from scripts.artifacts import InputsRecord
from scripts.cases import Argument, Case, Settings, TensorSpec
from scripts.errors import CaseFailure
from scripts.status import Status

GOLDEN = """
import torch

def some_golden(q, kv, scale, mask=None):
    return q * scale

def _make_inputs(device):
    state = {"m": torch.zeros(3), "steps": [torch.rand(2), torch.rand(2)]}
    return ((torch.randn(4, device=device), state, 0.5), {"mask": None})
"""


@pytest.fixture
def golden(tmp_path: Path) -> str:
    path = tmp_path / "some_golden.py"
    path.write_text(GOLDEN)
    return str(path)


def mode_a(golden: str, seed: int = 0) -> Case:
    spec = TensorSpec((4, 8), "bfloat16", "randn")
    arguments = (
        Argument("q", (spec,)),
        Argument("kv", (spec, spec), is_list=True),
        Argument("scale", is_value=True, value=0.25),
    )
    return Case("some_golden", "case", golden, None, "A", arguments, Settings(seed=seed))


def mode_b(golden: str) -> Case:
    return Case("some_golden", "case", golden, None, "B", (), Settings())


def made(case: Case, folder: Path) -> InputsRecord:
    make_inputs.run(case, "key", folder, ())
    return artifacts.read(folder / "inputs.json", InputsRecord)


def test_the_record_says_what_was_drawn(golden: str, tmp_path: Path) -> None:
    record = made(mode_a(golden), tmp_path / "case")
    assert [(info.name, info.shape, info.dtype, info.init) for info in record.tensors] == [
        ("q", (4, 8), "bfloat16", "randn"),
        ("kv[0]", (4, 8), "bfloat16", "randn"),
        ("kv[1]", (4, 8), "bfloat16", "randn"),
    ]
    assert record.scalars == {"scale": 0.25}
    assert record.nbytes == 3 * 64
    assert len({info.sha256 for info in record.tensors}) == 3
    args, kwargs = tensors.load(tmp_path / "case/inputs.pt")
    assert args == ()
    assert {info.name: info.sha256 for info in record.tensors}["kv[1]"] == tensors.sha256(kwargs["kv"][1])


def test_a_factorys_arguments_are_named_after_the_goldens_parameters(golden: str, tmp_path: Path) -> None:
    record = made(mode_b(golden), tmp_path / "case")
    assert [info.name for info in record.tensors] == ["q", 'kv["m"]', 'kv["steps"][0]', 'kv["steps"][1]']
    assert record.scalars == {"scale": 0.5, "mask": None}


@pytest.mark.parametrize("mode", [mode_a, mode_b])
def test_inputs_that_were_dropped_are_drawn_again_bit_for_bit(golden: str, tmp_path: Path, mode: object) -> None:
    case = mode(golden)  # type: ignore[operator]
    first = made(case, tmp_path / "first")
    torch.randn(17)
    assert made(case, tmp_path / "again").tensors == first.tensors


def test_another_seed_draws_other_inputs(golden: str, tmp_path: Path) -> None:
    first, second = made(mode_a(golden), tmp_path / "0"), made(mode_a(golden, seed=1), tmp_path / "1")
    assert [info.sha256 for info in first.tensors] != [info.sha256 for info in second.tensors]


def test_inputs_that_do_not_fit_are_refused_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 4 * 2**30)
    memory.check(1 * 2**30, "a/b")
    with pytest.raises(CaseFailure, match=r"a/b take 3\.00 GiB.*4\.00 GiB") as refused:
        memory.check(3 * 2**30, "a/b")
    assert refused.value.status is Status.SKIPPED


def test_the_free_memory_is_a_number_of_this_machine() -> None:
    total = 2**10 * int(next(line for line in open("/proc/meminfo") if line.startswith("MemTotal")).split()[1])  # noqa: SIM115
    assert 0 < memory.available_bytes() <= total


@pytest.mark.parametrize(
    "returned",
    [
        "None",
        "42",
        "'text'",
        "[]",
        "(torch.ones(1),)",
        "[('case', torch.ones(1), {})]",
        "{'case': 1}",
        "[('other', (), {})]",
    ],
)
def test_what_a_factory_may_not_return_is_said_with_what_it_may(golden: str, tmp_path: Path, returned: str) -> None:
    Path(golden).write_text(
        f"import torch\ndef some_golden(x): return x\ndef _make_inputs(device): return {returned}\n"
    )
    with pytest.raises(CaseFailure) as refused:
        made(mode_b(golden), tmp_path / "case")
    assert refused.value.status is Status.GOLDEN_FAILED
    assert "_make_inputs" in refused.value.message
    assert not (tmp_path / "case").exists()


def test_a_factory_is_stopped_before_it_makes_what_does_not_fit(
    golden: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)
    Path(golden).write_text(
        "import torch\ndef some_golden(x): return x\n"
        "def _make_inputs(device):\n"
        "    lengths = torch.randint(1, 5, (3,), device=device).tolist()\n"
        "    parts = [torch.randn(2**15, device=device) for _ in range(sum(lengths) * 0 + 3)]\n"
        "    return (parts + [torch.zeros(2**18, device=device)], {})\n"
    )
    with pytest.raises(CaseFailure, match="some_golden/case") as refused:
        made(mode_b(golden), tmp_path / "case")
    assert refused.value.status is Status.SKIPPED


def test_what_a_factory_lets_go_does_not_count(golden: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 2**20)
    Path(golden).write_text(
        "import torch\ndef some_golden(x): return x\n"
        "def _make_inputs(device):\n"
        "    for _ in range(20):\n"
        "        x = torch.randn(2**14, device=device).to(torch.bfloat16)\n"
        "    return ((x,), {})\n"
    )
    assert made(mode_b(golden), tmp_path / "case").nbytes == 2**15


def test_the_guard_changes_no_drawn_byte(golden: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = [torch.randn(5), torch.randint(0, 9, (4,)), torch.randperm(6), torch.rand(3).bernoulli()]
    torch.manual_seed(3)
    with memory.Guard("a/b"):
        drawn = [torch.randn(5), torch.randint(0, 9, (4,)), torch.randperm(6), torch.rand(3).bernoulli()]
    assert all(torch.equal(a, b) for a, b in zip(expected, drawn, strict=True))
