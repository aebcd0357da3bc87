"""Symmetric int8 quantisation with one scale per token.

Formula: scale = amax(|x|) / 127 over the last dim; q = round(x / scale), half to even.

Shapes: x [..., H] of any floating type; outputs q [..., H] int8 in -127 … 127 and scale [..., 1] float32, so that
x is about q * scale.
Source: the dynamic activation quantisation in front of int8 matmuls (DeepSeek V3.2, GLM-4.5).
Chosen: a token of zeros gets scale 1 and q = 0; sources leave 0 / 0 open.
"""

from __future__ import annotations

import torch

from golden.quantise import quantise_int8


def per_token_int8_quant_golden(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q [..., H] int8 and scale [..., 1] float32."""
    return quantise_int8(x)
