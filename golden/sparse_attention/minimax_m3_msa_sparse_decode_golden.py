"""Grouped-query decode attention over selected blocks of keys (MiniMax M3).

Formula: O[b, h] = softmax(q[b, h] . K * D^-0.5) V over the tokens of the blocks block_ids[b] that lie below seq_len;
query head h uses kv head h / (Hq / Hkv).

Shapes: q [B, Hq, D]; k_blocks, v_blocks [B, Hkv, nb, block, D]; block_ids [B, n] int32, distinct, with at least one
block that starts below seq_len. Output [B, Hq, D] in q's dtype. Computed in float32.
Source: MiniMax M3 sparse attention (64 query heads on 4, blocks of 128 tokens, 16 of them, the last one always).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import masked_softmax
from golden.inputs import Draw, distinct_ids, pick_case


class _Size(NamedTuple):
    batch: int
    heads: int
    kv_heads: int
    dim: int
    blocks: int
    block: int
    chosen: int
    seq_len: int


_SIZES = {
    "smoke": _Size(2, 4, 2, 16, blocks=6, block=8, chosen=4, seq_len=43),
    "p0": _Size(1, 64, 4, 128, blocks=17, block=128, chosen=16, seq_len=2176),
}
CASES = tuple(_SIZES)


def minimax_m3_msa_sparse_decode_golden(
    q: torch.Tensor, k_blocks: torch.Tensor, v_blocks: torch.Tensor, block_ids: torch.Tensor, seq_len: int
) -> torch.Tensor:
    """Return O [B, Hq, D] in q's dtype."""
    batch, kv_heads, _, block, dim = k_blocks.shape
    ids = block_ids.long()
    rows = torch.arange(batch, device=q.device)[:, None]
    # The slice between the two indices puts the chosen blocks first: [B, n, Hkv, block, D].
    keys, values = (x[rows, :, ids].transpose(1, 2).flatten(2, 3).float() for x in (k_blocks, v_blocks))
    position = (ids[:, :, None] * block + torch.arange(block, device=q.device)).flatten(1)  # [B, n block]
    grouped = q.float().unflatten(1, (kv_heads, -1))  # [B, Hkv, G, D]
    scores = torch.matmul(grouped, keys.transpose(-2, -1)) * dim**-0.5
    weights = masked_softmax(scores, (position < seq_len)[:, None, None])
    return torch.matmul(weights, values).flatten(1, 2).to(q.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The last block is always chosen, and in the smoke case only a part of it is below seq_len."""
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    ids = distinct_ids(size.batch, size.chosen, size.blocks - 1, device)
    ids[:, -1] = size.blocks - 1
    shape = (size.batch, size.kv_heads, size.blocks, size.block, size.dim)
    return (), {
        "q": draw.normal(size.batch, size.heads, size.dim),
        "k_blocks": draw.normal(*shape),
        "v_blocks": draw.normal(*shape),
        "block_ids": ids,
        "seq_len": size.seq_len,
    }
