"""Second stage of chunked KDA: the inverse of every chunk's unit lower triangular matrix.

Formula: Tinv = (I + L)^-1 per chunk.

Shapes: L [B, T, H, C] float32, strictly lower triangular in each block of C tokens; T a multiple of C. Output Tinv
[B, T, H, C] float32. Computed in float32 by forward substitution.
Source: Kimi Linear 2025, chunk form in delta_rule.py.
"""

from __future__ import annotations

import torch

from golden.inputs import pick_case
from golden.linear_attention.kda_stages import SIZES, first_inputs, interactions_of, inverse_of, summed_gates

CASES = tuple(SIZES)


def kda_inversion_golden(L: torch.Tensor) -> torch.Tensor:
    """Return Tinv [B, T, H, C]."""
    return inverse_of(L)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """L of the stage before, whose inverse is bounded."""
    size = pick_case(SIZES, case)
    made = first_inputs(size, device)
    gates = summed_gates(made["g"], size.chunk)
    return (), {"L": interactions_of(made["k"], gates, made["beta"], size.chunk)}
