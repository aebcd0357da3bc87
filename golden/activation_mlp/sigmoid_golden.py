"""The logistic function.

Formula: y = 1 / (1 + exp(-x)).

Shapes: x of any shape; output as x, in x's dtype. Computed in float32.
Source: textbook; shape of the vector benchmark [16, 16384].
"""

from __future__ import annotations

import torch


def sigmoid_golden(x: torch.Tensor) -> torch.Tensor:
    """Return y, shaped and typed as x."""
    return torch.sigmoid(x.float()).to(x.dtype)
