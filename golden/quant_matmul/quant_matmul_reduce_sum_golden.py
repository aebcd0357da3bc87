"""Sum over a batch of dequantised int8 products.

Formula: y = sum over b of (x1[b] x2[b]) * x1_scale[b, :, None] * x2_scale.

Shapes: x1 [B, M, K] int8, x1_scale [B, M] float32; x2 [B, K, N] int8, x2_scale [N]; output [M, N] bfloat16. Computed in
float32.
Source: interface of the Ascend operator QuantMatmulReduceSum.
"""

from __future__ import annotations

import torch

from golden.quantise import matmul_int8


def quant_matmul_reduce_sum_golden(
    x1: torch.Tensor, x2: torch.Tensor, x1_scale: torch.Tensor, x2_scale: torch.Tensor
) -> torch.Tensor:
    """Return y [M, N] bfloat16."""
    scaled = matmul_int8(x1, x2) * x1_scale[:, :, None] * x2_scale.float()
    return scaled.sum(0).to(torch.bfloat16)
