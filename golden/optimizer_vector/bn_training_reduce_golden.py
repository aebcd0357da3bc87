"""Sums that batch normalisation needs in training.

Formula, per channel: sum = sum of x, square_sum = sum of x^2, over batch and image.

Shapes: x [N, C, H, W]; outputs sum and square_sum [C] float32. Computed in float32.
Source: TensorFlow's and Ascend's BNTrainingReduce.
"""

from __future__ import annotations

import torch


def bn_training_reduce_golden(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sum and square_sum [C] float32."""
    wide = x.float()
    return wide.sum((0, 2, 3)), wide.square().sum((0, 2, 3))
