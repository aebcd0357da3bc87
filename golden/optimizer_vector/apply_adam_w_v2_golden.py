"""One AdamW step; updates weight and moments in place.

Formula, with step t >= 1:
    w <- w (1 - lr weight_decay)
    m <- beta1 m + (1 - beta1) g,   v <- beta2 v + (1 - beta2) g^2
    w <- w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)

Shapes: w, grad, m, v all alike. w and grad of any floating type, m and v float32, v >= 0. Computed in float32; w is
rounded once, when it is stored. Returns the three updated tensors, which are the arguments themselves.
Source: Loshchilov and Hutter 2019, algorithm 2, in the form of torch.optim.AdamW (eps outside the root).
"""

from __future__ import annotations

import torch


def apply_adam_w_v2_golden(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    weight_decay: float = 0.01,
    eps: float = 1e-8,
    step: int = 1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Update w, m, v in place and return them."""
    g = grad.float()
    m.mul_(beta1).add_(g, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    denominator = (v / (1 - beta2**step)).sqrt_().add_(eps)
    update = m / (1 - beta1**step) / denominator
    w.copy_(w.float() * (1 - lr * weight_decay) - lr * update)
    return w, m, v
