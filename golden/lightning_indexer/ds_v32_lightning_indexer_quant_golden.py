"""Choice of the keys a query attends to: top-k of the lightning indexer's scores over paged int8 keys (DeepSeek V3.2).

Formula, for query token s of the s1 new tokens of a sequence of length L:
    score[j] = k_scale[j] * sum_h q_scale[h] weight[h] ReLU(q[h] . k[j]) / 2048,   j < L - (s1 - 1 - s)
    indices = the selected_count keys of largest score, best first, then -1.

Shapes: query [T, N, D] int8, T = B s1; q_scale, weight [T, N] float16; key_cache [blocks, block_size, 1, D] int8;
k_scale [blocks, block_size, 1] float16; act_seq [B] int32, s1 <= L <= width * block_size; block_table [B, width] int32.
Output [T, selected_count] int32. Computed in float32; the factor 1 / 2048 keeps integer products within float16 on the
device.
Source: DeepSeek V3.2 (2025), lightning indexer. The order of equal scores is not defined.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import before, gather_pages, top_indices
from golden.inputs import Draw, pick_case, ragged_lengths
from golden.inputs import block_table as make_block_table


class _Size(NamedTuple):
    batch: int
    new: int
    heads: int
    dim: int
    blocks: int
    block_size: int
    width: int
    shortest: int
    longest: int
    selected: int


_SIZES = {
    "smoke": _Size(3, 2, 4, 16, 16, 16, 4, 5, 60, 12),
    "p0": _Size(2, 2, 64, 128, 16, 128, 8, 1024, 1024, 2048),
}
CASES = tuple(_SIZES)


def ds_v32_lightning_indexer_quant_golden(
    query: torch.Tensor,
    q_scale: torch.Tensor,
    key_cache: torch.Tensor,
    k_scale: torch.Tensor,
    weight: torch.Tensor,
    act_seq: torch.Tensor,
    block_table: torch.Tensor,
    selected_count: int = 2048,
) -> torch.Tensor:
    """Return the chosen key positions [T, selected_count] int32, -1 where there are fewer keys."""
    batch = len(act_seq)
    new = len(query) // batch
    keys = gather_pages(key_cache, block_table)[:, :, 0].float()  # [B, S, D]
    scales = gather_pages(k_scale, block_table)[:, :, 0].float()  # [B, S]
    products = torch.einsum("bqnd,bsd->bqns", query.float().unflatten(0, (batch, new)), keys)
    head_weight = (q_scale.float() * weight.float()).unflatten(0, (batch, new))
    scores = torch.einsum("bqn,bqns->bqs", head_weight, torch.relu(products) / 2048) * scales[:, None]
    visible = act_seq.long()[:, None] - torch.arange(new - 1, -1, -1, device=query.device)  # [B, s1]
    scores = scores.masked_fill(~before(visible, scores.shape[-1]), float("-inf"))
    return top_indices(scores, visible, selected_count).flatten(0, 1)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device, torch.float16)
    tokens = size.batch * size.new
    lengths = ragged_lengths(size.batch, size.shortest, size.longest, device)
    return (), {
        "query": draw.integers(-127, 128, tokens, size.heads, size.dim),
        "q_scale": draw.uniform(1e-3, 1e-2, tokens, size.heads, dtype=torch.float16),
        "key_cache": draw.integers(-127, 128, size.blocks, size.block_size, 1, size.dim),
        "k_scale": draw.uniform(1e-3, 1e-2, size.blocks, size.block_size, 1, dtype=torch.float16),
        "weight": draw.normal(tokens, size.heads),
        "act_seq": lengths,
        "block_table": make_block_table(lengths, size.block_size, size.blocks, size.width),
        "selected_count": size.selected,
    }
