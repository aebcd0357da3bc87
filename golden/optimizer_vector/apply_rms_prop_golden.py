"""One RMSProp step with momentum; updates variable and moments in place.

Formula: ms <- rho ms + (1 - rho) g^2;   mom <- momentum mom + lr g / sqrt(ms + eps);   var <- var - mom.

Shapes: var, ms, mom, grad all alike, float32; ms >= 0. Returns var, ms and mom, which are the arguments. Computed in
float32.
Source: TensorFlow's ApplyRMSProp, which puts eps inside the root, where torch.optim.RMSprop has it outside.
"""

from __future__ import annotations

import torch


def apply_rms_prop_golden(
    var: torch.Tensor,
    ms: torch.Tensor,
    mom: torch.Tensor,
    grad: torch.Tensor,
    lr: float = 1e-3,
    rho: float = 0.9,
    momentum: float = 0.9,
    eps: float = 1e-7,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Update var, ms, mom in place and return them."""
    ms.mul_(rho).addcmul_(grad, grad, value=1 - rho)
    mom.mul_(momentum).addcmul_(grad, torch.rsqrt(ms + eps), value=lr)
    var.sub_(mom)
    return var, ms, mom
