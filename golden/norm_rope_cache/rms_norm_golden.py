"""Root-mean-square normalisation over the last dim.

Formula: y = x / sqrt(mean(x^2) + eps) * weight.

Shapes: x [..., H]; weight [H]; output as x, in x's dtype. Computed in float32.
Source: Zhang and Sennrich 2019; shapes of GutenOCR 3B, Phi-3 mini and Qwen3-VL.
Chosen: one cast at the end. Some models cast before the weight is applied, which differs by one rounding.
"""

from __future__ import annotations

import torch

from golden.blocks import rms_norm


def rms_norm_golden(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Return y [..., H] in x's dtype."""
    return rms_norm(x, weight, eps).to(x.dtype)
