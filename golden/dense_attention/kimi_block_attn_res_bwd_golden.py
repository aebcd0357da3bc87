"""Gradient of the attention over the outputs of earlier blocks (Kimi attention residuals).

Formula, with u = gamma proj_weight and the scores s = v . u / rms * scale: ds = alpha * (g . v - sum over L of alpha g
. v);
    dv = alpha g + ds scale (u / rms - v (v . u) / (D rms^3));
    d proj_weight = sum ds scale gamma v / rms;   d gamma = sum ds scale proj_weight v / rms

Shapes: grad_h [B, S, D] = g; blocks, a list of L tensors [B, S, D], the partial block last; proj_weight [D];
alpha_cache [B, S, L] and rms_cache [B, S, L, 1] float32 from the forward pass; gamma [D] or None for ones. Outputs: the
list of L gradients [B, S, D] in the blocks' dtype, d proj_weight and d gamma [D] float32. Computed in float32.
Source: differentiation of kimi_block_attn_res_fwd. Chosen: gamma is optional, because sources leave it out of the
inputs (folded into proj_weight).
"""

from __future__ import annotations

import torch

from golden.dense_attention import kimi_block_attn_res_fwd_golden as forward

CASES = forward.CASES


def kimi_block_attn_res_bwd_golden(
    grad_h: torch.Tensor,
    blocks: list[torch.Tensor],
    proj_weight: torch.Tensor,
    alpha_cache: torch.Tensor,
    rms_cache: torch.Tensor,
    gamma: torch.Tensor | None = None,
    scale: float = 1.0,
) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
    """Return the blocks' gradients, d proj_weight and d gamma."""
    values, g = torch.stack(list(blocks), dim=2).float(), grad_h.float()[:, :, None]  # [B, S, L, D], [B, S, 1, D]
    weight = proj_weight.float()
    gain = torch.ones_like(weight) if gamma is None else gamma.float()
    d_alpha = (g * values).sum(-1)
    d_score = alpha_cache * (d_alpha - (alpha_cache * d_alpha).sum(-1, keepdim=True)) * scale
    u = weight * gain
    along = (values * u).sum(-1, keepdim=True) / (values.shape[-1] * rms_cache**3)
    d_values = alpha_cache[..., None] * g + d_score[..., None] * (u / rms_cache - values * along)
    summed = (d_score[..., None] * values / rms_cache).sum((0, 1, 2))
    return [grad.to(grad_h.dtype) for grad in d_values.unbind(2)], summed * gain, summed * weight


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The forward operator with gamma of ones gives alpha and rms."""
    _, inputs = forward._make_inputs(device, case)
    h, rms, alpha = forward.kimi_block_attn_res_fwd_golden(**inputs)
    return (), {
        "grad_h": torch.randn(h.shape, device=device).to(h.dtype),
        "blocks": [*inputs["blocks"], inputs["partial_block"]],
        "proj_weight": inputs["proj_weight"],
        "alpha_cache": alpha,
        "rms_cache": rms,
    }
