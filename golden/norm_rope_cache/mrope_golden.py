"""Rotary embedding with three position axes (time, height, width) of Qwen2-VL models.

Formula: the D channels are cut into the sections of mrope_section, twice in a row; section n takes cos and sin of axis
n mod 3; then RoPE rotates the pairs (i, i + D / 2) of q and k.

Shapes: q [B, Nq, S, D]; k [B, Nk, S, D]; cos, sin [3, B, S, D], two equal halves; the sections sum to D / 2. Outputs: q
and k rotated, in their dtypes. Computed in float32.
Source: Qwen2-VL (Wang et al. 2024), section 2.1; shapes of GutenOCR 3B (sections 16, 24, 24).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from golden.blocks import rope_half


def mrope_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mrope_section: Sequence[int] = (16, 24, 24),
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return q [B, Nq, S, D] and k [B, Nk, S, D], rotated."""
    chosen = []
    for table in (cos, sin):
        sections = table.split([*mrope_section, *mrope_section], dim=-1)
        chosen.append(torch.cat([part[n % 3] for n, part in enumerate(sections)], dim=-1)[:, None])
    return rope_half(q, *chosen).to(q.dtype), rope_half(k, *chosen).to(k.dtype)
