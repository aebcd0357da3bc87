"""Two projections of the same input, gated.

Formula: y = silu(x Wg + bg) * (x Wfc + bfc).

Shapes: x [T, H]; w_gate, w_fc [H, I]; b_gate, b_fc [I]; output [T, I] in x's dtype. Computed in float32.
Source: Shazeer 2020.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, swiglu


def fused_swiglu_golden(
    x: torch.Tensor, w_gate: torch.Tensor, b_gate: torch.Tensor, w_fc: torch.Tensor, b_fc: torch.Tensor
) -> torch.Tensor:
    """Return y [T, I] in x's dtype."""
    return swiglu(matmul(x, w_gate) + b_gate.float(), matmul(x, w_fc) + b_fc.float()).to(x.dtype)
