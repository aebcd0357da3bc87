"""Third stage of chunked KDA: what a chunk's tokens write, with and without the state before it.

Formula, per chunk: w = Tinv (beta k exp(G));   u = Tinv (beta v).

Shapes: k [B, T, H, K]; v [B, T, H, V]; g [B, T, H, K] float32, gates G summed within each chunk; beta [B, T, H]
float32; Tinv [B, T, H, chunk] float32; T a multiple of chunk. Outputs: w [B, T, H, K] in k's dtype, u [B, T, H, V] in
v's dtype. Computed in float32.
Source: Kimi Linear 2025, chunk form in delta_rule.py. Chosen: g is summed, as the stage kda_gate_kkt returns it.
"""

from __future__ import annotations

import torch

from golden.inputs import pick_case
from golden.linear_attention.delta_rule import from_chunks, to_chunks, updates
from golden.linear_attention.kda_stages import SIZES, Size, first_inputs, interactions_of, inverse_of, summed_gates

CASES = tuple(SIZES)


def kda_wy_golden(
    k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, Tinv: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return w [B, T, H, K] and u [B, T, H, V]."""
    chunk = Tinv.shape[-1]
    w, u = updates(*(to_chunks(x, chunk) for x in (Tinv, k, v, g, beta)))
    return from_chunks(w).to(k.dtype), from_chunks(u).to(v.dtype)


def inputs_of(size: Size, device: torch.device | str) -> dict[str, torch.Tensor]:
    """Inputs of a size: summed gates and Tinv as the stages before return them."""
    made = first_inputs(size, device)
    gates = summed_gates(made["g"], size.chunk)
    t_inv = inverse_of(interactions_of(made["k"], gates, made["beta"], size.chunk))
    return made | {"g": gates, "Tinv": t_inv}


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    made = inputs_of(pick_case(SIZES, case), device)
    return (), {name: made[name] for name in ("k", "v", "g", "beta", "Tinv")}
