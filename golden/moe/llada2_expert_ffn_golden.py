"""One expert's feed-forward block (LLaDA2).

Formula: [gate | up] = x W13;   y = (silu(gate) * up) W2.

Shapes: x [T, H]; w13 [H, 2 I]; w2 [I, H]; output [T, H] in x's dtype. Computed in float32.
Source: LLaDA2 MoE (hidden size 2048, inner size 512).
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, swiglu


def llada2_expert_ffn_golden(x: torch.Tensor, w13: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Return y [T, H] in x's dtype."""
    gate, up = matmul(x, w13).chunk(2, dim=-1)
    return matmul(swiglu(gate, up), w2).to(x.dtype)
