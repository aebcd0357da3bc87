"""Fake quantisation value by value, and its gradient against autograd with a straight-through rounding."""

from __future__ import annotations

import pytest
import torch
from support import close, load


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(53)


class Straight(torch.autograd.Function):
    """Rounding whose gradient is 1."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


KINDS = ["per_tensor", "per_channel"]


def scale_of(kind: str) -> torch.Tensor:
    scale = torch.rand(1, 1) * 0.02 + 0.01 if kind == "per_tensor" else torch.rand(6, 1) * 0.5 + 0.01
    if kind == "per_channel":
        scale[3] = -1.0  # counts as eps
    return scale


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bit", [2, 4, 8])
def test_symmetric_values_are_the_nearest_allowed_multiples(kind: str, bit: int) -> None:
    weight, scale = torch.randn(6, 40), scale_of(kind)
    out = load(f"qat_symmetric_{kind}_golden")[1](weight, scale, bit=bit)
    for r in range(6):
        step = max(float(scale[min(r, len(scale) - 1)]), 1e-5)
        for c in range(40):
            steps = min(max(round(float(weight[r, c]) / step), -(2 ** (bit - 1))), 2 ** (bit - 1) - 1)
            assert float(out[r, c]) == pytest.approx(steps * step, rel=1e-5, abs=1e-9)
    assert load(f"qat_symmetric_{kind}_golden")[1](weight.bfloat16(), scale).dtype == torch.bfloat16


def test_rounding_is_half_to_even() -> None:
    golden = load("qat_symmetric_per_tensor_golden")[1]
    weight = torch.tensor([[0.5, 1.5, 2.5, -0.5, -1.5]])
    assert golden(weight, torch.ones(1, 1)).tolist() == [[0.0, 2.0, 2.0, 0.0, -2.0]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bit", [2, 4, 8])
def test_symmetric_gradient_is_the_straight_through_one(kind: str, bit: int) -> None:
    weight, scale, upstream = torch.randn(6, 40), scale_of(kind), torch.randn(6, 40)
    w, s = weight.double().requires_grad_(), scale.double().requires_grad_()
    step = s.clamp(min=1e-5)
    out = torch.clamp(Straight.apply(w / step), -(2 ** (bit - 1)), 2 ** (bit - 1) - 1) * step
    (out * upstream).sum().backward()
    d_weight, d_scale = load(f"qat_symmetric_{kind}_backward_golden")[1](upstream, weight, scale, bit=bit)
    assert d_scale.shape == scale.shape and 0 < (w.grad == 0).sum() < w.numel()
    close(d_weight, w.grad)
    close(d_scale, s.grad, 1e-4)
    if kind == "per_channel":
        assert d_scale[3] == 0


def asymmetric_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    weight, scale, offset = torch.randn(4, 48), torch.rand(12, 1) * 0.5 + 0.05, torch.rand(12, 1) * 9 - 1
    scale[5] = -1.0
    offset[:2] = torch.tensor([[-0.9], [7.9]])  # clamped to 0 and 7
    return weight, scale, offset


def test_asymmetric_values_shift_by_their_groups_zero() -> None:
    weight, scale, offset = asymmetric_inputs()
    out = load("qat_asymmetric_per_group_golden")[1](weight, scale, offset, group_size=16)
    for n, value in enumerate(weight.flatten().tolist()):
        step, zero = max(float(scale[n // 16]), 1e-4), min(max(round(float(offset[n // 16])), 0), 7)
        steps = min(max(round(value / step) + zero, 0), 7)
        assert float(out.flatten()[n]) == pytest.approx((steps - zero) * step, rel=1e-5, abs=1e-9)
    assert out.shape == weight.shape


def test_asymmetric_gradient_is_the_straight_through_one() -> None:
    weight, scale, offset = asymmetric_inputs()
    upstream = torch.randn(4, 48)
    w, s, o = (x.double().requires_grad_() for x in (weight, scale, offset))
    step, zero = s.clamp(min=1e-4), Straight.apply(o).clamp(0, 7)
    groups = w.reshape(-1, 16)
    out = (torch.clamp(Straight.apply(groups / step) + zero, 0, 7) - zero) * step
    (out.reshape(4, 48) * upstream).sum().backward()
    golden = load("qat_asymmetric_per_group_backward_golden")[1]
    d_weight, d_scale, d_offset = golden(upstream, weight, scale, offset, group_size=16)
    assert d_scale.shape == d_offset.shape == (12, 1) and 0 < (w.grad == 0).sum() < w.numel()
    close(d_weight, w.grad)
    close(d_scale, s.grad, 1e-4)
    close(d_offset, o.grad, 1e-4)
    assert d_offset[1] == 0 and d_scale[5] == 0
