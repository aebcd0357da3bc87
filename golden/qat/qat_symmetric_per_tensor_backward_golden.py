"""Gradient of symmetric fake quantisation with one scale for the whole weight (quantisation-aware training).

Formula, with q before clamping r = round(w / s) and s = max(scale, eps): where r is inside -2^(bit-1) … 2^(bit-1) - 1,
    d weight = dY and d scale gets dY (r - w / s); outside, d weight = 0 and d scale gets dY times the bound that
    clamps;
d scale is the sum over the tensor, and 0 where scale < eps.

Shapes: grad_output, weight [R, C]; scale [1, 1]. Outputs: d weight [R, C] in the weight's dtype, d scale [1, 1] in the
scale's. Computed in float32.
Source: straight-through estimator (Bengio et al. 2013) and learned step sizes (Esser et al. 2020), without the latter's
gradient scale. Chosen: the range is tested on the rounded value, which is what clamp sees.
"""

from __future__ import annotations

import torch

from golden.qat.fake_quant import symmetric_backward


def qat_symmetric_per_tensor_backward_golden(
    grad_output: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bit: int = 8, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return d weight [R, C] and d scale [1, 1]."""
    d_weight, d_scale = symmetric_backward(grad_output, weight, scale, bit, eps)
    return d_weight.to(weight.dtype), d_scale.sum().reshape(scale.shape).to(scale.dtype)
