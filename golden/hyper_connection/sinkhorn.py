"""Sinkhorn normalisation: a positive matrix becomes nearly doubly stochastic."""

from __future__ import annotations

import torch


def sinkhorn(logits: torch.Tensor, iterations: int, eps: float) -> torch.Tensor:
    """float32 matrices [..., n, n] whose rows and columns sum to about 1.

    softmax(rows) + eps is the first normalisation of the rows; then columns and rows take turns, `iterations` times for
    the columns, which come last, each divided by its sum + eps.
    """
    matrix = torch.softmax(logits.float(), dim=-1) + eps
    matrix = matrix / (matrix.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        matrix = matrix / (matrix.sum(-1, keepdim=True) + eps)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + eps)
    return matrix
