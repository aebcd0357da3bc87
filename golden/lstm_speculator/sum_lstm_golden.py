"""Cell of an LSTM speculator with normalised gates (Arctic).

Formula: [f | i | o | c] = states + alpha z4;   g = GELU(RMSNorm(c) w_cell + b_cell);
    c' = prev_cell sigmoid(f) + g sigmoid(i);   h = GELU(RMSNorm(c') w_state + b_state) sigmoid(o)
with GELU(x) = x sigmoid(1.702 x).

Shapes: states_4d, z4_4d [T, 4 D]; prev_cell [T, D]; w_cell, b_cell, w_state, b_state [D]. Outputs h and c' [T, D] in
the dtype of states_4d. Computed in float32.
Source: Arctic speculator (Snowflake 2025).
"""

from __future__ import annotations

import torch

from golden.blocks import rms_norm


def sum_lstm_golden(
    states_4d: torch.Tensor,
    z4_4d: torch.Tensor,
    prev_cell: torch.Tensor,
    w_cell: torch.Tensor,
    b_cell: torch.Tensor,
    w_state: torch.Tensor,
    b_state: torch.Tensor,
    alpha: float = 0.1,
    eps_cell: float = 1e-6,
    eps_state: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return h and c' [T, D] in the dtype of states_4d."""
    forget, accept, output, candidate = (states_4d.float() + alpha * z4_4d.float()).chunk(4, dim=-1)
    fresh = _gelu(rms_norm(candidate, w_cell, eps_cell) + b_cell.float())
    cell = prev_cell.float() * torch.sigmoid(forget) + fresh * torch.sigmoid(accept)
    hidden = _gelu(rms_norm(cell, w_state, eps_state) + b_state.float()) * torch.sigmoid(output)
    return hidden.to(states_4d.dtype), cell.to(states_4d.dtype)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(1.702 * x)
