"""Int8 product, dequantised and requantised to int8.

Formula: y = round(clamp((x1 x2^T) * x1_scale * x2_scale, -128, 127)), half to even.

Shapes: x1 [M, K] int8, x1_scale [M, 1] float32; x2 [N, K] int8, x2_scale [1, N] float32; output [M, N] int8. Computed
in float32.
Source: interface of the Ascend operator QuantBatchMatmul with an int8 output.
"""

from __future__ import annotations

import torch

from golden.quantise import matmul_int8, round_int8


def quant_batch_matmul_golden(
    x1: torch.Tensor, x2: torch.Tensor, x1_scale: torch.Tensor, x2_scale: torch.Tensor
) -> torch.Tensor:
    """Return y [M, N] int8."""
    return round_int8(matmul_int8(x1, x2.t()) * x1_scale * x2_scale)
