"""Gated feed-forward blocks and activations."""

from __future__ import annotations

import pytest
import torch
from support import close

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
