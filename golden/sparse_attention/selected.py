"""What the sparse MLA goldens share: which rows a query selected, and attention over them."""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import before, masked_softmax, paged_rows
from golden.inputs import Draw, block_table, topk_ids


class Size(NamedTuple):
    """Sizes of a paged case: `lengths` are the sequences, `new` the queries of each."""

    lengths: tuple[int, ...]
    new: int
    heads: int
    nope: int
    rope: int
    topk: int
    blocks: int
    block_size: int
    width: int


def select(
    topk_idx: torch.Tensor, table: torch.Tensor, act_seq: torch.Tensor, block_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Flat cache rows [T, topk], and which of them count: the first min(L - s1 + 1 + s, topk) of query s of s1."""
    tokens, topk = topk_idx.shape
    new = tokens // len(act_seq)
    step = torch.arange(new, device=topk_idx.device)
    visible = before((act_seq.long()[:, None] - new + 1 + step).flatten(), topk) & (topk_idx >= 0)
    return paged_rows(table.repeat_interleave(new, dim=0), topk_idx, block_size), visible


def attend(
    q_nope: torch.Tensor,
    q_rope: torch.Tensor,
    k_nope: torch.Tensor,
    k_rope: torch.Tensor,
    visible: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """float32 O [T N, D] = softmax([q_nope | q_rope] . [k_nope | k_rope] scale) k_nope.

    q_nope [T N, D] and q_rope [T N, Dr] hold the heads of a token in neighbouring rows; k_nope [T, topk, D], k_rope
    [T, topk, Dr]; visible [T, topk].
    """
    tokens = len(k_nope)
    query = torch.cat([q_nope, q_rope], dim=-1).float().unflatten(0, (tokens, -1))
    keys = torch.cat([k_nope.float(), k_rope.float()], dim=-1)
    weights = masked_softmax(torch.matmul(query, keys.transpose(1, 2)) * scale, visible[:, None])
    return torch.matmul(weights, k_nope.float()).flatten(0, 1)


def paged_inputs(size: Size, device: torch.device | str) -> dict[str, torch.Tensor]:
    """Queries, selections, block table and lengths of a case; the caches differ and are the caller's."""
    draw = Draw(device)
    lengths = torch.tensor(size.lengths, dtype=torch.int32, device=device)
    tokens = len(size.lengths) * size.new
    step = torch.arange(size.new, device=device)
    seen = (lengths.long()[:, None] - size.new + 1 + step).flatten()
    return {
        "q_nope": draw.normal(tokens * size.heads, size.nope),
        "q_rope": draw.normal(tokens * size.heads, size.rope),
        "topk_idx": topk_ids(seen, size.topk),
        "block_table": block_table(lengths, size.block_size, size.blocks, size.width),
        "act_seq": lengths,
    }
