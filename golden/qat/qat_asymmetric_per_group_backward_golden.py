"""Gradient of asymmetric fake quantisation with scale and offset per group (quantisation-aware training).

Formula, with s and z as in qat_asymmetric_per_group and r = round(w / s) + z: where r is inside 0 … 2^bit - 1,
    d weight = dY, d scale gets dY (round(w / s) - w / s), d offset gets 0; outside, with the bound b that clamps,
    d weight = 0, d scale gets dY (b - z), d offset gets -dY s
Both are summed over the group; d scale is 0 where scale < eps, d offset where round(offset) is clamped.

Shapes: grad_output, weight [R, C]; scale, offset [R C / group_size, 1]. Outputs: d weight [R, C] in the weight's dtype,
d scale and d offset [R C / group_size, 1] in theirs. Computed in float32.
Source: straight-through estimator (Bengio et al. 2013) and learned step sizes and offsets (Bhalgat et al. 2020).
Chosen: the range is tested on the rounded value, which is what clamp sees.
"""

from __future__ import annotations

import torch


def qat_asymmetric_per_group_backward_golden(
    grad_output: torch.Tensor,
    weight: torch.Tensor,
    scale: torch.Tensor,
    offset: torch.Tensor,
    bit: int = 3,
    eps: float = 1e-4,
    group_size: int = 128,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return d weight [R, C], d scale and d offset [R C / group_size, 1]."""
    upstream, groups = (x.float().reshape(-1, group_size) for x in (grad_output, weight))
    step, highest = scale.float().clamp(min=eps), 2**bit - 1
    rounded_offset = torch.round(offset.float())
    zero = rounded_offset.clamp(0, highest)
    ratio = groups / step
    steps = torch.round(ratio) + zero
    clamped = steps.clamp(0, highest)
    inside = steps == clamped
    d_weight = torch.where(inside, upstream, 0.0)
    d_scale = (upstream * torch.where(inside, steps - zero - ratio, clamped - zero)).sum(-1, keepdim=True)
    d_offset = torch.where(inside, 0.0, -upstream * step).sum(-1, keepdim=True)
    d_scale = torch.where(scale.float() >= eps, d_scale, 0.0)
    d_offset = torch.where(rounded_offset == zero, d_offset, 0.0)
    return d_weight.reshape(weight.shape).to(weight.dtype), d_scale.to(scale.dtype), d_offset.to(offset.dtype)
