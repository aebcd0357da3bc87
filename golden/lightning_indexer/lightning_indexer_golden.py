"""Per-head top-k keys of the lightning indexer.

Formula, per head h and query s: indices = top-k over keys j of W[h, s] * ReLU(Q[s, h] . K[j, h]), best first.

Shapes: query [B, S, N, D]; key [B, Skv, N, D]; weights [B, N, S, 1]; output [B, S, N, top_k] int32, top_k <= Skv.
Computed in float32.
Source: DeepSeek V3.2 (2025), lightning indexer, before the sum over heads. Keys whose product is negative tie at 0, and
the order of equal scores is not defined. No causal mask.
"""

from __future__ import annotations

import torch


def lightning_indexer_golden(
    query: torch.Tensor, key: torch.Tensor, weights: torch.Tensor, top_k: int = 8
) -> torch.Tensor:
    """Return key positions [B, S, N, top_k] int32."""
    products = torch.einsum("bsnd,btnd->bnst", query.float(), key.float())
    scores = weights.float() * torch.relu(products)
    return scores.topk(top_k, dim=-1).indices.transpose(1, 2).contiguous().to(torch.int32)
