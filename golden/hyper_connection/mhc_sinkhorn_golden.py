"""Sinkhorn normalisation of many small matrices (manifold-constrained hyper-connections).

Formula: m = softmax over rows of x, plus eps; then columns and rows are divided by their sum + eps in turn, 20 times
for the columns, which come last.

Shapes: x [T, n, n] float32; output alike. Computed in float32.
Source: mHC (2025) and DeepSeek V4. Chosen: the softmax counts as the first normalisation of the rows, so that `iters`
passes over the columns and iters - 1 further ones over the rows follow.
"""

from __future__ import annotations

import torch

from golden.hyper_connection.sinkhorn import sinkhorn


def mhc_sinkhorn_golden(x: torch.Tensor, iters: int = 20, eps: float = 1e-6) -> torch.Tensor:
    """Return matrices [T, n, n] float32."""
    return sinkhorn(x, iters, eps)
