"""Attention over the outputs of earlier blocks, in place of a residual sum (Kimi attention residuals).

Formula, with V the L = N + 1 tensors blocks and partial_block: K = RMSNorm(V) gamma;   alpha = softmax over L of
(K . proj_weight * scale);   h = sum over L of alpha V.

Shapes: blocks, a list of N tensors [B, S, D]; partial_block [B, S, D]; proj_weight, gamma [D]. Outputs: h [B, S, D] in
the dtype of partial_block; rms_cache [B, S, L, 1] and alpha_cache [B, S, L] float32 for the backward pass. Computed in
float32.
Source: Kimi attention residuals (N 12, up to 127). Chosen: rms_cache is sqrt(mean(v^2) + eps), not its reciprocal.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case

# blocks, batch, tokens, channels
SIZES = {"smoke": (3, 2, 4, 32), "p0": (12, 4, 128, 2048)}
CASES = tuple(SIZES)


def kimi_block_attn_res_fwd_golden(
    blocks: list[torch.Tensor],
    partial_block: torch.Tensor,
    proj_weight: torch.Tensor,
    gamma: torch.Tensor,
    scale: float = 1.0,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return h [B, S, D], rms_cache [B, S, L, 1] and alpha_cache [B, S, L]."""
    values = torch.stack([*blocks, partial_block], dim=2).float()  # [B, S, L, D]
    rms = (values.square().mean(-1, keepdim=True) + eps).sqrt()
    scores = (values / rms * gamma.float() * proj_weight.float()).sum(-1) * scale
    alpha = torch.softmax(scores, dim=-1)
    return (alpha[..., None] * values).sum(2).to(partial_block.dtype), rms, alpha


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    blocks, *shape = pick_case(SIZES, case)
    draw = Draw(device)
    return (), {
        "blocks": [draw.normal(*shape) for _ in range(blocks)],
        "partial_block": draw.normal(*shape),
        # Scores of size 1: random weights would make alpha choose one block.
        "proj_weight": draw.normal(shape[-1], scale=shape[-1] ** -0.5),
        "gamma": draw.ones(shape[-1]),
    }
