"""Quantisers against a loop in exact arithmetic and their error bounds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from oracles import hifloat8, hifloat8_values
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


def test_mx_scales_are_the_largest_power_of_two_below_the_block() -> None:
    x = torch.randn(3, 128) * torch.logspace(-3, 3, 3)[:, None]
    values, scale = quantise.quantise_mx(x)
    assert (values.dtype, scale.dtype) == (torch.float8_e4m3fn, torch.float8_e8m0fnu) and scale.shape == (3, 2, 2)
    for row in range(3):
        for block in range(4):
            amax = float(x[row, 32 * block : 32 * block + 32].abs().max())
            assert float(scale[row, block // 2, block % 2].float()) == 2.0 ** (math.floor(math.log2(amax)) - 8)
    error = (quantise.dequantise_mx(values, scale) - x).abs()
    assert (error <= x.abs() * 0.126).all()  # 3 bits of mantissa; an eighth where 448 … 512 saturates


def test_mx_of_zeros_is_zero() -> None:
    values, scale = quantise.quantise_mx(torch.zeros(1, 64))
    assert (values.float() == 0).all() and torch.isfinite(scale.float()).all()
    assert (quantise.dequantise_mx(values, scale) == 0).all()


def test_mx_weights_share_a_scale_per_32_rows_of_a_column() -> None:
    values = torch.randn(64, 3).to(torch.float8_e4m3fn)
    scale = torch.tensor([[[1.0, 2.0], [4.0, 8.0], [0.5, 0.25]]]).to(torch.float8_e8m0fnu)  # [K / 64, N, 2]
    wide = quantise.dequantise_mx_weight(values, scale)
    for k in range(64):
        for n in range(3):
            assert wide[k, n] == values[k, n].float() * float(scale[0, n, k // 32].float())


def test_hifloat8_rounds_to_the_nearest_pattern() -> None:
    grid = torch.tensor(hifloat8_values(), dtype=torch.float64)
    assert len(grid) == 126 and grid[0] == 2.0**-22 and grid[-1] == 2.0**15
    assert torch.equal(quantise.round_hifloat8(grid).double(), grid)
    assert torch.equal(grid.bfloat16().double(), grid)
    for low, high in itertools.pairwise(grid):
        middle = (low + high) / 2
        just_below = torch.nextafter(middle.float(), torch.zeros(()))
        got = quantise.round_hifloat8(torch.stack([just_below, middle.float(), -middle.float()]))
        assert got.tolist() == [low, high, -high]
    assert quantise.round_hifloat8(torch.tensor([1e9, -1e9, 0.0, 1e-9])).tolist() == [32768, -32768, 0, 0]


def test_hifloat8_of_a_token_reaches_its_largest_value() -> None:
    x = torch.randn(3, 50)
    values, scale = quantise.quantise_hifloat8(x)
    assert torch.equal(values.double(), hifloat8(x / scale))
    assert values.dtype == torch.bfloat16 and (values.float().abs().amax(-1) == 32768).all()
    close(values.float() * scale, x, 0.3)


def test_int8_products_do_not_wrap() -> None:
    a, b = (torch.full(shape, 127, dtype=torch.int8) for shape in [(1, 1040), (1040, 1)])
    assert quantise.matmul_int8(a, b).item() == 127 * 127 * 1040
