"""Small goldens that work: y = 2 x + 1, and a softmax with a reduce-max of its own."""

import torch


def small_golden(x: torch.Tensor) -> torch.Tensor:
    """x: any shape, float → the same shape and dtype."""
    return x * 2 + 1


def softmax_golden(x: torch.Tensor) -> torch.Tensor:
    """x: (rows, columns) → the same shape and dtype."""
    shifted = torch.exp(x - torch.amax(x, dim=-1, keepdim=True))
    return shifted / shifted.sum(dim=-1, keepdim=True)
