"""Scaled dot-product attention of several heads, dense keys, no dropout.

Formula: O = softmax(Q K^T * scale [+ causal mask]) V, with scale = 1 / sqrt(D) unless it is given.

Shapes: q [B, H, Sq, D]; k, v [B, H, Skv, D]; output [B, H, Sq, D] in q's dtype.
Dtypes: any floating type; products and softmax are computed in float32.
Source: Vaswani et al. 2017, equation 1; shapes of the P0 cases from the operator's performance report.
Chosen: the causal mask is aligned at the bottom right, i.e. the last query sees every key, as in decoding with a cache.
"""

from __future__ import annotations

import torch


def attention_golden(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None = None, causal: bool = False
) -> torch.Tensor:
    """Return O [B, H, Sq, D] in q's dtype. With `causal`, query i sees the keys up to i + Skv - Sq."""
    if scale is None:
        scale = q.shape[-1] ** -0.5
    scores = torch.matmul(q.float(), k.float().transpose(-2, -1)) * scale
    if causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        visible = visible.tril(diagonal=k.shape[-2] - q.shape[-2])
        scores = scores.masked_fill(~visible, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v.float()).to(q.dtype)
