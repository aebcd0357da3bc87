"""Rotary embedding of interleaved pairs, returned de-interleaved.

Formula: with e = x[2i], o = x[2i + 1]: y = cat(e cos - o sin, o cos + e sin).

Shapes: x [B, N, S, D]; cos, sin broadcastable to x with last dim D, two equal halves of which the first is used;
output as x, in x's dtype. Computed in float32.
Source: Su et al. 2021 for the rotation; the layout is DeepSeek's, whose weights store pairs next to each other.
"""

from __future__ import annotations

import torch

from golden.blocks import rope_interleaved


def interleave_rope_golden(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return y [B, N, S, D] in x's dtype: first the even, then the odd members of the rotated pairs."""
    return rope_interleaved(x, cos, sin).to(x.dtype)
