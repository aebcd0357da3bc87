"""Gated feed-forward block: SwiGLU between an up and a down projection.

Formula: y = (silu(x Wg + bg) * (x Wu + bu)) Wd + bd; biases optional; silu(z) = z / (1 + exp(-z)).

Shapes: x [T, H]; w_gate, w_up [H, I]; w_down [I, H]; b_gate, b_up [I]; b_down [H]; output [T, H] in x's dtype.
Computed in float32 throughout, one cast at the end.
Source: Shazeer 2020; shapes of GutenOCR 3B (with biases) and Qwen3 1.7B (without).
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, swiglu


def swiglu_mlp_golden(
    x: torch.Tensor,
    w_gate: torch.Tensor,
    w_up: torch.Tensor,
    w_down: torch.Tensor,
    b_gate: torch.Tensor | None = None,
    b_up: torch.Tensor | None = None,
    b_down: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return y [T, H] in x's dtype."""
    hidden = swiglu(_linear(x, w_gate, b_gate), _linear(x, w_up, b_up))
    return _linear(hidden, w_down, b_down).to(x.dtype)


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    product = matmul(x, weight)
    return product if bias is None else product + bias.float()
