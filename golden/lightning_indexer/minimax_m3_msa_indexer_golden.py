"""Choice of the key blocks that one query attends to (MiniMax M3).

Formula: a block of `block` keys is worth the largest q[h] . k[j] over its keys and over the index heads h. Chosen are
the topk_blocks - local_blocks best of all but the last local_blocks blocks, best first, then those last ones. With at
most topk_blocks blocks, all are chosen, in order.

Shapes: idx_q [heads, D]; idx_k [nb * block, D]; output [min(nb, topk_blocks)] int32. Computed in float32.
Source: MiniMax M3 sparse attention (blocks of 128 keys, 16 blocks, the last one always).
"""

from __future__ import annotations

import torch

from golden.blocks import matmul


def minimax_m3_msa_indexer_golden(
    idx_q: torch.Tensor, idx_k: torch.Tensor, block: int = 128, topk_blocks: int = 16, local_blocks: int = 1
) -> torch.Tensor:
    """Return block ids [min(nb, topk_blocks)] int32."""
    blocks = idx_k.shape[0] // block
    every = torch.arange(blocks, device=idx_k.device)
    if blocks <= topk_blocks:
        return every.to(torch.int32)
    worth = matmul(idx_q, idx_k.t()).unflatten(-1, (blocks, block)).amax(dim=(0, 2))
    best = worth[: blocks - local_blocks].topk(topk_blocks - local_blocks).indices
    return torch.cat([best, every[blocks - local_blocks :]]).to(torch.int32)
