"""All stages of chunked KDA in a row, in float32 between them.

Formula: kda_gate_kkt, kda_inversion, kda_wy, kda_chunk_h, kda_chunk_o.

Shapes: q, k [B, T, H, K]; v [B, T, H, V]; g [B, T, H, K] float32, raw log decay, <= 0; beta [B, T, H] float32; h0
[B, H, K, V] float32; T a multiple of chunk. Outputs: o [B, T, H, V] in q's dtype, final_state [B, H, K, V] float32.
Computed in float32; scale defaults to K^-0.5.
Source: Kimi Linear 2025, chunk form in delta_rule.py.
"""

from __future__ import annotations

import torch

from golden.inputs import pick_case
from golden.linear_attention.kda_chunk_h_golden import kda_chunk_h_golden
from golden.linear_attention.kda_chunk_o_golden import kda_chunk_o_golden
from golden.linear_attention.kda_gate_kkt_golden import kda_gate_kkt_golden
from golden.linear_attention.kda_inversion_golden import kda_inversion_golden
from golden.linear_attention.kda_stages import SIZES, first_inputs
from golden.linear_attention.kda_wy_golden import kda_wy_golden

CASES = tuple(SIZES)


def kda_e2e_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    h0: torch.Tensor,
    chunk: int = 128,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [B, T, H, V] in q's dtype and final_state [B, H, K, V] float32."""
    query, key, value = q.float(), k.float(), v.float()
    gates, interaction = kda_gate_kkt_golden(key, g, beta, chunk)
    w, u = kda_wy_golden(key, value, gates, beta, kda_inversion_golden(interaction))
    h, v_new, final_state = kda_chunk_h_golden(key, w, u, gates, h0, chunk)
    return kda_chunk_o_golden(query, key, v_new, h, gates, scale).to(q.dtype), final_state


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(SIZES, case)
    return (), first_inputs(size, device) | {"chunk": size.chunk}
