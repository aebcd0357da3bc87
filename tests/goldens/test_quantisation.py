"""Quantisers against a loop in exact arithmetic and their error bounds."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from support import close

from golden import quantise
from golden.quantisation.per_token_int8_quant_golden import per_token_int8_quant_golden


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_every_value_is_the_nearest_step_and_the_largest_one_is_127(dtype: torch.dtype) -> None:
    x = (torch.randn(6, 40) * 3).to(dtype)
    q, scale = per_token_int8_quant_golden(x)
    assert (q.dtype, q.shape) == (torch.int8, x.shape) and (scale.dtype, scale.shape) == (torch.float32, (6, 1))
    for row, steps, step in zip(x.tolist(), q.tolist(), scale.flatten().tolist(), strict=True):
        largest = max(map(abs, row))
        assert step == pytest.approx(largest / 127, rel=1e-6)
        assert max(map(abs, steps)) == 127
        for value, number in zip(row, steps, strict=True):
            # half a step, plus what float32 division may add at the middle of two steps
            assert abs(Fraction(value) - number * Fraction(step)) <= Fraction(step) * Fraction(50001, 100000)


def test_halves_round_to_even() -> None:
    x = torch.tensor([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5]])
    assert per_token_int8_quant_golden(x)[0].tolist() == [[127, 0, 2, 2, 0, -2]]


def test_a_token_of_zeros_gets_scale_one_and_zeros() -> None:
    q, scale = per_token_int8_quant_golden(torch.zeros(2, 8))
    assert q.tolist() == [[0] * 8] * 2 and scale.tolist() == [[1.0], [1.0]]


def test_groups_and_channels_are_tokens_of_a_rearranged_tensor() -> None:
    x = torch.randn(3, 32)
    q, scale = quantise.quantise_int8_groups(x, 8)
    for group in range(4):
        columns = slice(8 * group, 8 * group + 8)
        q_group, scale_group = quantise.quantise_int8(x[:, columns])
        assert torch.equal(q[:, columns], q_group) and torch.equal(scale[:, group : group + 1], scale_group)
    close(quantise.dequantise_groups(q, scale), x, float(scale.max()) * 0.51)
    q, scale = quantise.quantise_int8_channels(x)
    for column in range(32):
        q_column, scale_column = quantise.quantise_int8(x[:, column])
        assert torch.equal(q[:, column], q_column) and scale[0, column] == scale_column


def test_fp8_keeps_three_bits_of_mantissa() -> None:
    x = torch.randn(4, 64)
    q, scale = quantise.quantise_fp8(x)
    assert q.dtype == torch.float8_e4m3fn and torch.isfinite(q.float()).all()
    assert (q.float().abs().amax(-1) == 448).all()
    error = (q.float() * scale - x).abs()
    assert (error <= x.abs() * 2**-4 + scale * 2**-10).all()  # half a unit in the last place, normal and subnormal
