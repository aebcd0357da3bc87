"""Root-mean-square normalisation over one inner dim, without a gain.

Formula: y = x / sqrt(mean over `dim` of x^2 + eps).

Shapes: x of any shape, dim one of its dims; output as x, in x's dtype. Computed in float32.
Source: Zhang and Sennrich 2019, over the channels of an image [N, C, H, W].
"""

from __future__ import annotations

import torch


def rms_norm_channel_golden(x: torch.Tensor, dim: int = 1, eps: float = 1e-5) -> torch.Tensor:
    """Return y, shaped and typed as x."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(dim, keepdim=True) + eps)).to(x.dtype)
