"""Fourth stage of chunked KDA: the state before every chunk, and what its tokens really write.

Formula, from chunk to chunk: v_new = u - w h;   h <- diag(exp(G_C)) h + (k exp(G_C - G))^T v_new.

Shapes: k, w [B, T, H, K]; u [B, T, H, V]; g [B, T, H, K] float32, gates G summed within each chunk; h0 [B, H, K, V]
float32; T a multiple of chunk. Outputs: h [B, T / chunk, H, K, V] float32, the states before the chunks; v_new [B, T,
H, V] in u's dtype; final_state [B, H, K, V] float32. Computed in float32.
Source: Kimi Linear 2025, chunk form in delta_rule.py.
"""

from __future__ import annotations

import torch

from golden.inputs import pick_case
from golden.linear_attention.delta_rule import from_chunks, next_state, to_chunks
from golden.linear_attention.kda_stages import SIZES, Size
from golden.linear_attention.kda_wy_golden import inputs_of as wy_inputs
from golden.linear_attention.kda_wy_golden import kda_wy_golden

CASES = tuple(SIZES)


def kda_chunk_h_golden(
    k: torch.Tensor, w: torch.Tensor, u: torch.Tensor, g: torch.Tensor, h0: torch.Tensor, chunk: int = 128
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return h [B, T / chunk, H, K, V], v_new [B, T, H, V] and final_state [B, H, K, V]."""
    state, states, written = h0.float(), [], []
    by_chunk = (to_chunks(x, chunk).unbind(2) for x in (k, w, u, g))
    for k_c, w_c, u_c, gates in zip(*by_chunk, strict=True):
        v_new = u_c - torch.matmul(w_c, state)
        states.append(state)
        written.append(v_new)
        state = next_state(k_c, v_new, gates, state)
    return torch.stack(states, dim=1), from_chunks(torch.stack(written, dim=2)).to(u.dtype), state


def inputs_of(size: Size, device: torch.device | str) -> dict[str, torch.Tensor]:
    """Inputs of a size: w and u as the stage before returns them."""
    made = wy_inputs(size, device)
    w, u = kda_wy_golden(*(made[name] for name in ("k", "v", "g", "beta", "Tinv")))
    return made | {"w": w, "u": u}


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(SIZES, case)
    made = inputs_of(size, device)
    return (), {name: made[name] for name in ("k", "w", "u", "g", "h0")} | {"chunk": size.chunk}
