"""The softmax between the two products of Gemma 4's attention.

Formula: y = softmax(scores * scale) over the last dim.

Shapes: scores [B, N, Sq, Skv]; output alike, in the dtype of scores. Computed in float32.
Source: shapes of Gemma 4 31B (scale 1 / 16).
"""

from __future__ import annotations

import torch


def gemma4_attn_softmax_golden(scores: torch.Tensor, scale: float = 0.0625) -> torch.Tensor:
    """Return y [B, N, Sq, Skv] in the dtype of scores."""
    return torch.softmax(scores.float() * scale, dim=-1).to(scores.dtype)
