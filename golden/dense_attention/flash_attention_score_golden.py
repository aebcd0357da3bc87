"""Attention with a positional bias, an additive mask and dropout, and its softmax statistics.

Formula: S = (q k^T + pse) * scale - 1e4 * atten_mask;   P = softmax(S) * drop_mask;   O = P v
         softmax_max = max S,   softmax_sum = sum exp(S - softmax_max)
kv heads are repeated for the query heads that share them.

Shapes: query [B, N, S, D]; key, value [B, Nkv, Skv, D]; atten_mask [S, Skv] float32, 1 = masked; pse [B, N, S, Skv];
drop_mask [S, Skv], ones for no dropout. Outputs: O [B, N, S, D] in query's dtype, softmax_max and softmax_sum [B, N, S,
1] float32. Computed in float32; scale defaults to D^-0.5.
Source: interface of the Ascend operator FlashAttentionScore. Chosen: drop_mask already holds the factor 1 / (1 - p).
A row that is masked as a whole is the softmax of its unmasked scores, because the mask is finite.
"""

from __future__ import annotations

import torch


def flash_attention_score_golden(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    atten_mask: torch.Tensor,
    pse: torch.Tensor,
    drop_mask: torch.Tensor,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return O [B, N, S, D] in query's dtype, softmax_max and softmax_sum [B, N, S, 1] float32."""
    group = query.shape[1] // key.shape[1]
    keys, values = (x.float().repeat_interleave(group, dim=1) for x in (key, value))
    if scale is None:
        scale = query.shape[-1] ** -0.5
    scores = (torch.matmul(query.float(), keys.transpose(-2, -1)) + pse.float()) * scale - atten_mask.float() * 1e4
    maximum = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - maximum)
    total = weights.sum(-1, keepdim=True)
    out = torch.matmul(weights / total * drop_mask.float(), values)
    return out.to(query.dtype), maximum, total
