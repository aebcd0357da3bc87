"""Grouped product of MXFP8 matrices, SwiGLU, int8 per token.

Formula: [gate | up] = gmm_mxfp8(a, b);   (y, s) = int8 per token of silu(gate) * up, s = amax / 127.

Shapes: a, scaled_a, b, scaled_b, group_list as in gmm_mxfp8, N even. Outputs: y [M, N / 2] int8, s [M] float32.
Computed in float32.
Source: interface of the Ascend operator GroupedMatmulSwigluQuant with MXFP8 operands. Chosen: the gate is the first
half.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

import torch

from golden.blocks import swiglu
from golden.quant_matmul import gmm_mxfp8_golden as gmm
from golden.quantise import quantise_int8

CASES = gmm.CASES


def grouped_matmul_swiglu_quant_golden(
    a: torch.Tensor, scaled_a: torch.Tensor, b: torch.Tensor, scaled_b: torch.Tensor, group_list: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y [M, N / 2] int8 and s [M] float32."""
    gate, up = gmm.gmm_mxfp8_golden(a, scaled_a, b, scaled_b, group_list).chunk(2, dim=-1)
    y, scale = quantise_int8(swiglu(gate, up))
    return y, scale.squeeze(-1)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    return gmm._make_inputs(device, case)
