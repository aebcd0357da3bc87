"""Rotary embedding of a vision encoder's queries and keys.

Formula: RoPE rotates the pairs (i, i + D / 2) of q and k.

Shapes: q, k [T, N, D]; cos, sin [T, D] float32, two equal halves. Outputs: q and k rotated, in their dtypes. Computed
in float32.
Source: Su et al. 2021; shapes of Spatial-SSRL 3B.
"""

from __future__ import annotations

import torch

from golden.blocks import rope_half


def vision_rope_golden(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q and k [T, N, D], rotated."""
    tables = cos[:, None], sin[:, None]
    return rope_half(q, *tables).to(q.dtype), rope_half(k, *tables).to(k.dtype)
