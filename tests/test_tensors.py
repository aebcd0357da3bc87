"""Drawing, storing and walking the tensors of a call."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts import dtypes, tensors
from scripts.cases import TensorSpec
from scripts.errors import ArtifactError, CaseFailure

FLOATS = [name for name, dtype in dtypes.DTYPES.items() if dtype.is_float]
INTEGERS = [name for name, dtype in dtypes.DTYPES.items() if dtype.is_integer]


def draw(shape: tuple[int, ...], dtype: str, init: str, seed: int = 0, name: str = "x") -> torch.Tensor:
    return tensors.draw(TensorSpec(shape, dtype, init), seed, name)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_float_dtype_can_be_drawn(dtype: str) -> None:
    drawn = draw((4, 1000), dtype, "uniform(0.5, 1.5)").to(torch.float32)
    assert drawn.shape == (4, 1000)
    assert 0.49 <= drawn.min() <= drawn.max() <= 2.0  # float8_e8m0fnu has powers of two alone


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_integer_dtype_covers_its_range_and_no_more(dtype: str) -> None:
    drawn = draw((2000,), dtype, "randint(0, 5)")
    assert str(drawn.dtype) == f"torch.{dtype}"
    assert sorted(set(drawn.to(torch.int64).tolist())) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("init", "expected"),
    [
        ("zeros", [0, 0, 0, 0]),
        ("ones", [1, 1, 1, 1]),
        ("const(2.5)", [2.5, 2.5, 2.5, 2.5]),
        ("arange", [0, 1, 2, 3]),
        ("arange(3, -1)", [3, 2, 1, 0]),
    ],
)
def test_exact_recipes(init: str, expected: list[float]) -> None:
    assert draw((2, 2), "float32", init).flatten().tolist() == expected


def test_randn_has_the_mean_and_scale_it_was_given() -> None:
    drawn = draw((100_000,), "float32", "randn*0.02+1")
    assert abs(drawn.mean().item() - 1) < 1e-3
    assert abs(drawn.std().item() - 0.02) < 1e-3


def test_a_permutation_holds_every_number_once() -> None:
    assert sorted(draw((4, 25), "int32", "perm").flatten().tolist()) == list(range(100))


def test_rope_tables_are_cos_and_sin_of_position_times_frequency() -> None:
    cos, sin = draw((6, 8), "float64", "rope_cos"), draw((6, 8), "float64", "rope_sin")
    assert torch.allclose(cos**2 + sin**2, torch.ones(6, 8, dtype=torch.float64))
    assert torch.equal(cos[:, :4], cos[:, 4:])
    angle = 3 * 10000.0 ** (-1 / 4)
    assert cos[3, 1].item() == pytest.approx(torch.cos(torch.tensor(angle, dtype=torch.float64)).item())


def test_the_same_seed_and_name_give_the_same_bytes_whatever_else_is_drawn() -> None:
    first = draw((64, 64), "bfloat16", "randn")
    torch.randn(1000)
    draw((5,), "float32", "randn", name="another")
    assert tensors.sha256(draw((64, 64), "bfloat16", "randn")) == tensors.sha256(first)
    assert tensors.sha256(draw((64, 64), "bfloat16", "randn", seed=1)) != tensors.sha256(first)
    assert tensors.sha256(draw((64, 64), "bfloat16", "randn", name="y")) != tensors.sha256(first)


def test_the_drawn_bytes_do_not_depend_on_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = tensors.sha256(draw((300, 400), "float32", "randn"))
        torch.set_num_threads(2)
        assert tensors.sha256(draw((300, 400), "float32", "randn")) == one
    finally:
        torch.set_num_threads(before)


LEAF = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=5))
NESTED = st.recursive(
    st.one_of(LEAF, st.just("tensor")),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


def _with_tensors(value: object) -> object:
    if value == "tensor":
        return torch.arange(3)
    if isinstance(value, list):
        return [_with_tensors(item) for item in value]
    if isinstance(value, dict):
        return {name: _with_tensors(item) for name, item in value.items()}
    return value


def _comparable(value: object) -> object:
    return [
        (path, leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf) for path, leaf in tensors.walk(value, "v")
    ]


@settings(max_examples=50, deadline=None)
@given(value=NESTED)
def test_what_is_saved_is_what_is_loaded(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.mktemp("saved") / "inputs.pt"
    tensors.save(path, (_with_tensors(value),), {"more": _with_tensors(value)})
    args, kwargs = tensors.load(path)
    assert _comparable(args[0]) == _comparable(_with_tensors(value))
    assert _comparable(kwargs["more"]) == _comparable(_with_tensors(value))


def test_a_file_that_would_run_code_is_refused_and_runs_none(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (os.mkdir, (str(tmp_path / "run"),))

    path = tmp_path / "inputs.pt"
    torch.save({"args": [Evil()], "kwargs": {}}, path)
    with pytest.raises(ArtifactError, match="cannot be read"):
        tensors.load(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ArtifactError, match="cannot be read"):
        tensors.load(path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a zip", b"\x80\x02}q\x00."])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "inputs.pt"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"inputs\.pt"):
        tensors.load(path)


def test_the_hash_is_of_the_values_not_of_the_strides() -> None:
    x = torch.randn(5, 7)
    assert tensors.sha256(x.T.contiguous().T) == tensors.sha256(x)
    assert tensors.same_bytes(torch.tensor([float("nan")]), torch.tensor([float("nan")]))
    assert not tensors.same_bytes(torch.tensor([0.0]), torch.tensor([-0.0]))


def test_a_tensor_that_occurs_twice_stays_one_tensor() -> None:
    x = torch.ones(3)
    args, kwargs = tensors.replace(((x, [x]), {"y": x}), lambda tensor: tensor.clone())
    assert args[0] is args[1][0] is kwargs["y"]
    assert args[0] is not x


def test_an_argument_that_cannot_be_stored_is_named() -> None:
    with pytest.raises(CaseFailure, match=r'state\["made_at"\] a builtins.object'):
        tensors.check_leaves(({"made_at": object()},), {}, ["state"])
