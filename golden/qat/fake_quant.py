"""Fake quantisation and its straight-through gradient, shared by the QAT goldens, in float32.

Rounding passes gradients on as if it were not there; clamping passes them inside its range only.
"""

from __future__ import annotations

import torch


def symmetric(weight: torch.Tensor, scale: torch.Tensor, bit: int, eps: float) -> torch.Tensor:
    """clamp(round(w / s), -2^(bit-1), 2^(bit-1) - 1) * s with s = max(scale, eps); scale broadcasts to the weight."""
    step = scale.float().clamp(min=eps)
    return torch.round(weight.float() / step).clamp(-(2 ** (bit - 1)), 2 ** (bit - 1) - 1) * step


def symmetric_backward(
    grad_output: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bit: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """d weight, and d scale before it is summed to the scale's shape."""
    upstream, step = grad_output.float(), scale.float().clamp(min=eps)
    ratio = weight.float() / step
    rounded = torch.round(ratio)
    clamped = rounded.clamp(-(2 ** (bit - 1)), 2 ** (bit - 1) - 1)
    inside = rounded == clamped
    d_weight = torch.where(inside, upstream, 0.0)
    d_scale = upstream * torch.where(inside, rounded - ratio, clamped)
    return d_weight, torch.where(scale.float() >= eps, d_scale, 0.0)
