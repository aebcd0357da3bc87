"""Feed-forward blocks of all experts on tokens that are sorted by expert, with a clamped gate (MiniMax M3).

Formula, for expert e and its rows: [gate | up] = x W13_e;   g = min(gate, limit);   u = clamp(up, -limit, limit);
    y = (g sigmoid(alpha g) (u + 1)) W2_e.

Shapes: sorted_tokens [N, H]; w13_flat [E H, 2 I]; w2_flat [E I, H]; expert_cumsum [E + 1] int32, from 0 to N, experts
may be empty, N at least 1. Output [N, H] in the tokens' dtype. Computed in float32.
Source: MiniMax M3 (128 experts); the activation is that of OpenAI's gpt-oss. Chosen: the 1 added to the up half follows
gpt-oss, and gate and up are halves, where gpt-oss interleaves them.
"""

from __future__ import annotations

import torch

from golden.inputs import pick_case
from golden.moe.grouped import Size, experts, make_inputs

_SIZES = {
    "smoke": Size((0, 3, 1, 0, 5, 0), 64, 32),
    "p0": Size((1, 0, 3, 4), 256, 128),
}
CASES = tuple(_SIZES)


def minimax_m3_moe_grouped_gemm_golden(
    sorted_tokens: torch.Tensor,
    w13_flat: torch.Tensor,
    w2_flat: torch.Tensor,
    expert_cumsum: torch.Tensor,
    alpha: float = 1.702,
    limit: float = 7.0,
) -> torch.Tensor:
    """Return y [N, H] in the tokens' dtype."""

    def activation(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return gate * torch.sigmoid(alpha * gate) * (up + 1)

    return experts(sorted_tokens, w13_flat, w2_flat, expert_cumsum, activation)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    return (), make_inputs(pick_case(_SIZES, case), device)
