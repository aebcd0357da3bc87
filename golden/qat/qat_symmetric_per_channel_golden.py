"""Symmetric fake quantisation of a weight with one scale per row (quantisation-aware training).

Formula: s = max(scale, eps);   q = clamp(round(w / s), -2^(bit-1), 2^(bit-1) - 1), half to even;   out = q s.

Shapes: weight [R, C]; scale [R, 1]; output [R, C] in the weight's dtype. Computed in float32.
Source: Jacob et al. 2018. Scales below eps, negative ones too, count as eps.
"""

from __future__ import annotations

import torch

from golden.qat.fake_quant import symmetric


def qat_symmetric_per_channel_golden(
    weight: torch.Tensor, scale: torch.Tensor, bit: int = 4, eps: float = 1e-5
) -> torch.Tensor:
    """Return out [R, C] in the weight's dtype."""
    return symmetric(weight, scale, bit, eps).to(weight.dtype)
