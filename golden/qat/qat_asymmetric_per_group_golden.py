"""Asymmetric fake quantisation of a weight with scale and offset per group (quantisation-aware training).

Formula, per group of group_size neighbours: s = max(scale, eps);   z = clamp(round(offset), 0, 2^bit - 1);
    out = (clamp(round(w / s) + z, 0, 2^bit - 1) - z) s, half to even

Shapes: weight [R, C]; scale, offset [R C / group_size, 1]; output [R, C] in the weight's dtype. Computed in float32.
Source: Jacob et al. 2018. Scales below eps, negative ones too, count as eps. Chosen: no clipping of the weight before
it is quantised: one source has a constant clip_val of 0.99, for which no rule could be found.
"""

from __future__ import annotations

import torch


def qat_asymmetric_per_group_golden(
    weight: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor,
    bit: int = 3,
    eps: float = 1e-4,
    group_size: int = 128,
) -> torch.Tensor:
    """Return out [R, C] in the weight's dtype."""
    groups, step = weight.float().reshape(-1, group_size), scale.float().clamp(min=eps)
    zero = torch.round(offset.float()).clamp(0, 2**bit - 1)
    steps = (torch.round(groups / step) + zero).clamp(0, 2**bit - 1)
    return ((steps - zero) * step).reshape(weight.shape).to(weight.dtype)
