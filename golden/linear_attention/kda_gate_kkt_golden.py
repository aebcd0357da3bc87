"""First stage of chunked KDA: summed gates and the interactions of a chunk's tokens.

Formula, within each chunk: G = running sum of g;   L[i, j] = beta_i sum_k k_i k_j exp(G_i - G_j) for j < i, else 0.

Shapes: k [B, T, H, K]; g [B, T, H, K] float32, raw log decay, <= 0; beta [B, T, H] float32; T a multiple of chunk.
Outputs: G [B, T, H, K] and L [B, T, H, chunk] float32, row i of a chunk at its token. Computed in float32.
Source: Kimi Linear 2025, chunk form in delta_rule.py.
"""

from __future__ import annotations

import torch

from golden.inputs import pick_case
from golden.linear_attention.kda_stages import SIZES, first_inputs, interactions_of, summed_gates

CASES = tuple(SIZES)


def kda_gate_kkt_golden(
    k: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, chunk: int = 128
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return G [B, T, H, K] and L [B, T, H, chunk]."""
    gates = summed_gates(g, chunk)
    return gates, interactions_of(k, gates, beta, chunk)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(SIZES, case)
    made = first_inputs(size, device)
    return (), {name: made[name] for name in ("k", "g", "beta")} | {"chunk": size.chunk}
