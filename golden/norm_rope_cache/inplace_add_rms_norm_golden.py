"""Sum of two tensors and its RMSNorm, both written over the arguments.

Formula: s = x1 + x2;   rstd = 1 / sqrt(mean(s^2) + eps);   y = s rstd gamma.   x1 becomes y, x2 becomes s.

Shapes: x1, x2 [..., H]; gamma [H]. Outputs: y, which is x1; s, which is x2; rstd [..., 1] float32. Computed in float32:
y comes from the sum before it is rounded to x2's dtype.
Source: interface of the Ascend operator InplaceAddRmsNorm.
"""

from __future__ import annotations

import torch


def inplace_add_rms_norm_golden(
    x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return x1 and x2, overwritten, and rstd [..., 1]."""
    summed = x1.float() + x2.float()
    rstd = torch.rsqrt(summed.square().mean(-1, keepdim=True) + eps)
    x1.copy_(summed * rstd * gamma.float())
    x2.copy_(summed)
    return x1, x2, rstd
