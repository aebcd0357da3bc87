"""Grouped-query prefill attention, one block of queries at a time, over selected blocks of keys (MiniMax M3).

Formula, for query block i, over the keys of the blocks j in topk_indices:
    O = softmax(q . k * D^-0.5 + block_mask[i, j] + (causal_mask if i = j)) V
query head h uses kv head h / (Hq / Hkv).

Shapes: q [n, Hq, D]; k_blocks, v_blocks [nb, block, Hkv, D]; topk_indices [m] int32, distinct, shared by all query
blocks; causal_mask [block, block] and block_mask [ceil(n / block), nb, block, block] float32, additive: 0 or -1e9. The
last query block may be partial. Output [n, Hq, D] in q's dtype. Computed in float32.
Source: MiniMax M3 sparse attention. Chosen: block_mask is indexed by block ids. A query whose keys are all masked gets
the mean of their values, because -1e9 is finite; topk_indices must hold its own block to prevent that.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.inputs import Draw, pick_case

MASKED = -1e9


class _Size(NamedTuple):
    tokens: int
    heads: int
    kv_heads: int
    dim: int
    blocks: int
    block: int


_SIZES = {
    "smoke": _Size(29, 4, 2, 16, blocks=4, block=8),
    "p0": _Size(2048, 64, 4, 128, blocks=16, block=128),
}
CASES = tuple(_SIZES)


def msa_main_branch_golden(
    q: torch.Tensor,
    k_blocks: torch.Tensor,
    v_blocks: torch.Tensor,
    topk_indices: torch.Tensor,
    causal_mask: torch.Tensor,
    block_mask: torch.Tensor,
) -> torch.Tensor:
    """Return O [n, Hq, D] in q's dtype."""
    _, block, kv_heads, dim = k_blocks.shape
    ids = topk_indices.long()
    keys, values = (x[ids].flatten(0, 1).float().transpose(0, 1) for x in (k_blocks, v_blocks))  # [Hkv, m block, D]
    outputs = []
    for i, rows in enumerate(q.float().split(block)):
        bias = block_mask[i, ids] + causal_mask * (ids == i)[:, None, None]  # [m, block, block]
        bias = bias.transpose(0, 1).flatten(1)[: len(rows)]  # [rows, m block]
        grouped = rows.unflatten(1, (kv_heads, -1)).permute(1, 2, 0, 3)  # [Hkv, G, rows, D]
        # The query heads of a kv head form one matrix; broadcasting would copy the keys for each head.
        scores = torch.matmul(grouped.flatten(1, 2), keys.transpose(-2, -1)) * dim**-0.5
        weights = torch.softmax(scores.unflatten(1, (-1, len(rows))) + bias, dim=-1)
        out = torch.matmul(weights.flatten(1, 2), values).unflatten(1, (-1, len(rows)))
        outputs.append(out.permute(2, 0, 1, 3).flatten(1, 2))
    return torch.cat(outputs).to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """All blocks are selected, in random order; keys of later blocks are masked."""
    size = pick_case(_SIZES, case)
    draw = Draw(device, torch.float32)
    above = torch.ones(size.block, size.block, device=device).triu(1)
    later = torch.ones(size.blocks, size.blocks, device=device).triu(1)
    return (), {
        "q": draw.normal(size.tokens, size.heads, size.dim),
        "k_blocks": draw.normal(size.blocks, size.block, size.kv_heads, size.dim),
        "v_blocks": draw.normal(size.blocks, size.block, size.kv_heads, size.dim),
        "topk_indices": torch.randperm(size.blocks, device=device).to(torch.int32),
        "causal_mask": above * MASKED,
        "block_mask": (later * MASKED)[:, :, None, None].repeat(1, 1, size.block, size.block),
    }
