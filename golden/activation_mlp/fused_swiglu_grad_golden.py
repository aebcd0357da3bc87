"""Gradient of two gated projections of the same input.

Formula, with g = x Wg + bg and fc = x Wfc + bfc saved by the forward pass, sigma = sigmoid(g):
    dfc = dy * silu(g);   dg = dy * fc * sigma (1 + g (1 - sigma))
    dx = dg Wg^T + dfc Wfc^T;   dWg = x^T dg,  dWfc = x^T dfc;   dbg, dbfc = sums over the tokens

Shapes: dy, g, fc [T, I]; x [T, H]; w_gate, w_fc [H, I]. Outputs in the dtypes of x and the weights: dx [T, H], dw_gate,
dw_fc [H, I], db_gate, db_fc [I]. Computed in float32.
Source: differentiation of fused_swiglu.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul


def fused_swiglu_grad_golden(
    dy: torch.Tensor,
    g: torch.Tensor,
    fc: torch.Tensor,
    x: torch.Tensor,
    w_gate: torch.Tensor,
    w_fc: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dx, dw_gate, dw_fc, db_gate, db_fc."""
    gate, upstream = g.float(), dy.float()
    sigma = torch.sigmoid(gate)
    dfc = upstream * gate * sigma
    dg = upstream * fc.float() * sigma * (1 + gate * (1 - sigma))
    dx = matmul(dg, w_gate.t()) + matmul(dfc, w_fc.t())
    return (
        dx.to(x.dtype),
        matmul(x.t(), dg).to(w_gate.dtype),
        matmul(x.t(), dfc).to(w_fc.dtype),
        dg.sum(0).to(w_gate.dtype),
        dfc.sum(0).to(w_fc.dtype),
    )
