"""The shared expert of a mixture of experts in int8 (GLM-4.5).

Formula: (xq, s) = int8 per token of x;   [gate | up] = (xq W13) * s * w13_scale;   a = silu(gate) * up;
    (aq, t) = int8 per token of a;   y = (aq W2) * t * w2_scale

Shapes: hidden_states [T, H]; w13 [H, 2 I] int8, w13_scale [2 I]; w2 [I, H] int8, w2_scale [H]; scales float32. Output
[T, H] in the dtype of hidden_states. Computed in float32.
Source: GLM-4.5 (hidden size 5120, inner size 192 per device).
"""

from __future__ import annotations

import torch

from golden.blocks import swiglu
from golden.quantise import matmul_int8, quantise_int8


def glm_ffn_shared_expert_quant_golden(
    hidden_states: torch.Tensor,
    w13: torch.Tensor,
    w13_scale: torch.Tensor,
    w2: torch.Tensor,
    w2_scale: torch.Tensor,
) -> torch.Tensor:
    """Return y [T, H] in the dtype of hidden_states."""
    quantised, scale = quantise_int8(hidden_states)
    gate, up = (matmul_int8(quantised, w13) * scale * w13_scale).chunk(2, dim=-1)
    quantised, scale = quantise_int8(swiglu(gate, up))
    return (matmul_int8(quantised, w2) * scale * w2_scale).to(hidden_states.dtype)
