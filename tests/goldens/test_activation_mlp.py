"""Gated feed-forward blocks and activations."""

from __future__ import annotations

import pytest
import torch
from support import close, inputs_of, load

from golden.activation_mlp.swiglu_mlp_golden import swiglu_mlp_golden


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(11)


def slow_mlp(x, w_gate, w_up, w_down, b_gate, b_up, b_down):
    """Row by row in float64, with the sigmoid as tanh."""
    rows = []
    for row in x.double():
        gate = (row[:, None] * w_gate.double()).sum(0) + b_gate.double()
        up = (row[:, None] * w_up.double()).sum(0) + b_up.double()
        hidden = gate * (1 + torch.tanh(gate / 2)) / 2 * up
        rows.append((hidden[:, None] * w_down.double()).sum(0) + b_down.double())
    return torch.stack(rows)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.bfloat16, 4e-2)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_swiglu_mlp_agrees_with_a_loop_over_rows(dtype: torch.dtype, tolerance: float, with_bias: bool) -> None:
    x, w_gate, w_up, w_down = (torch.randn(s).to(dtype) for s in [(3, 8), (8, 12), (8, 12), (12, 8)])
    biases = [torch.randn(n).to(dtype) if with_bias else torch.zeros(n) for n in (12, 12, 8)]
    out = swiglu_mlp_golden(x, w_gate, w_up, w_down, *(biases if with_bias else ()))
    assert out.dtype == dtype and out.shape == (3, 8)
    close(out, slow_mlp(x, w_gate, w_up, w_down, *biases), tolerance)


def test_swiglu_mlp_is_finite_for_extreme_gates() -> None:
    x = torch.tensor([[1e4], [-1e4]])
    out = swiglu_mlp_golden(x, torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 1))
    assert out.tolist() == [[1e8], [0.0]]


def test_fused_swiglu_agrees_with_a_loop_over_rows() -> None:
    _, i = inputs_of("fused_swiglu_golden", "smoke")
    out = load("fused_swiglu_golden")[1](**i)
    identity = torch.eye(48)  # the whole block is this one behind a projection that changes nothing
    wanted = slow_mlp(i["x"], i["w_gate"], i["w_fc"], identity, i["b_gate"], i["b_fc"], torch.zeros(48))
    close(out, wanted, 3e-2)
    assert out.dtype == torch.bfloat16


def test_gradient_of_fused_swiglu_is_autograds() -> None:
    torch.manual_seed(12)
    x, w_gate, w_fc = (torch.randn(s).bfloat16() for s in [(6, 8), (8, 10), (8, 10)])
    b_gate, b_fc, dy = torch.randn(10), torch.randn(10), torch.randn(6, 10).bfloat16()
    leaves = [t.double().requires_grad_() for t in (x, w_gate, w_fc, b_gate, b_fc)]
    gate, fc = leaves[0] @ leaves[1] + leaves[3], leaves[0] @ leaves[2] + leaves[4]
    (gate * (1 + torch.tanh(gate / 2)) / 2 * fc * dy.double()).sum().backward()
    grads = load("fused_swiglu_grad_golden")[1](dy, gate.detach().float(), fc.detach().float(), x, w_gate, w_fc)
    for actual, leaf in zip(grads, leaves, strict=True):
        assert actual.dtype == torch.bfloat16
        close(actual / leaf.grad.abs().max(), leaf.grad / leaf.grad.abs().max(), 1e-2)


def test_sigmoid_is_half_a_tanh_and_never_overflows() -> None:
    x = torch.randn(5, 7)
    sigmoid = load("sigmoid_golden")[1]
    close(sigmoid(x), (1 + torch.tanh(x.double() / 2)) / 2)
    assert sigmoid(torch.tensor([-1e4, 0.0, 1e4])).tolist() == [0.0, 0.5, 1.0]
    assert sigmoid(x.half()).dtype == torch.float16
