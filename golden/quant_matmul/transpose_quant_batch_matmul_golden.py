"""Batched MXFP8 product of permuted operands.

Formula: y[b] = dequantised(x1)[b] dequantised(x2)[b] over operands permuted to [B, M, K] and [B, K, N]; y [B, M, N] is
then permuted by perm_y.

Shapes: x1 float8_e4m3fn with x1_scale float8_e8m0fnu, x2 likewise, a pair of scales per 64 values along K. With
perm_x1 (1, 0, 2): x1 [M, B, K], x1_scale [M, B, K / 64, 2]. With perm_x2 (0, 1, 2): x2 [B, K, N], x2_scale [B, K / 64,
N, 2]; with (0, 2, 1): x2 [B, N, K], x2_scale [B, N, K / 64, 2]. Output [M, B, N] with perm_y (1, 0, 2), float16 for
dtype 1, bfloat16 for 27. Computed in float32.
Source: interface of the Ascend operator TransposeQuantBatchMatmul with MXFP8 operands.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from golden.blocks import matmul
from golden.inputs import Draw, pick_case
from golden.quantise import dequantise_mx, dequantise_mx_weight

# rows, batch, inner size, columns
_SIZES = {"smoke": (4, 3, 64, 32), "p0": (32, 16, 512, 128)}
CASES = tuple(_SIZES)
DTYPES = {1: torch.float16, 27: torch.bfloat16}  # numbers of the Ascend data types


def transpose_quant_batch_matmul_golden(
    x1: torch.Tensor,
    x2: torch.Tensor,
    x1_scale: torch.Tensor,
    x2_scale: torch.Tensor,
    perm_x1: Sequence[int] = (1, 0, 2),
    perm_x2: Sequence[int] = (0, 1, 2),
    perm_y: Sequence[int] = (1, 0, 2),
    dtype: int = 27,
) -> torch.Tensor:
    """Return y, permuted. ValueError for another dtype than 1 and 27."""
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype}; it must be 1 (float16) or 27 (bfloat16).")
    left = dequantise_mx(x1, x1_scale).permute(*perm_x1)
    along_k = dequantise_mx if tuple(perm_x2) == (0, 2, 1) else dequantise_mx_weight
    right = along_k(x2, x2_scale).permute(*perm_x2)
    return matmul(left, right).permute(*perm_y).to(DTYPES[dtype])


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    rows, batch, inner, columns = pick_case(_SIZES, case)
    draw = Draw(device, torch.float8_e4m3fn)
    return (), {
        "x1": draw.normal(rows, batch, inner),
        "x2": draw.normal(batch, inner, columns),
        "x1_scale": draw.e8m0(-1, 2, rows, batch, inner // 64, 2),
        "x2_scale": draw.e8m0(-1, 2, batch, inner // 64, columns, 2),
    }
