"""RMSNorm of each head, then rotary embedding (Qwen3).

Formula: y = RoPE(RMSNorm(x) weight), rotating the pairs (i, i + D / 2).

Shapes: x [T, N, D]; cos, sin [T, D], two equal halves; weight [D]; output [T, N, D] in x's dtype. Computed in float32.
Source: Qwen3 1.7B (16 query heads, 8 key heads, D 128).
"""

from __future__ import annotations

import torch

from golden.blocks import rms_norm, rope_half


def rms_norm_rope_golden(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Return y [T, N, D] in x's dtype."""
    return rope_half(rms_norm(x, weight, eps), cos[:, None], sin[:, None]).to(x.dtype)
