"""What the paged attention goldens share: caches with the head before the token, causal tails, factory inputs."""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import before, masked_softmax
from golden.inputs import block_table


class Size(NamedTuple):
    """Sizes of a case: `lengths` are the sequences, `new` the queries of each."""

    lengths: tuple[int, ...]
    new: int
    heads: int
    kv_heads: int
    dim: int
    blocks: int
    block_size: int
    width: int


def gather_heads_first(cache: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """[B, Hkv, width * block_size, D] from pages [blocks, Hkv, block_size, D]; padding ids read page 0.

    8-bit floats are gathered as bytes, because not every device indexes them.
    """
    raw = cache.view(torch.uint8) if cache.element_size() == 1 else cache
    gathered = raw[table.long().clamp(min=0)].transpose(1, 2).flatten(2, 3)
    return gathered.view(cache.dtype)


def attend_tail(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, lengths: torch.Tensor, scale: float
) -> torch.Tensor:
    """float32 O [B, s1, H, Dv]: query s of the s1 last tokens sees the first L - (s1 - 1 - s) keys.

    q [B, s1, H, D]; keys [B, Hkv, S, D]; values [B, Hkv, S, Dv]; lengths [B], s1 <= L <= S.
    """
    new, kv_heads = q.shape[1], keys.shape[1]
    # The query heads of a kv head lie beside its tokens in one matrix; broadcasting would copy the keys for each head.
    grouped = q.float().unflatten(2, (kv_heads, -1)).permute(0, 2, 3, 1, 4)  # [B, Hkv, G, s1, D]
    scores = torch.matmul(grouped.flatten(2, 3), keys.float().transpose(-2, -1)) * scale
    seen = lengths.long()[:, None] - torch.arange(new - 1, -1, -1, device=q.device)  # [B, s1]
    visible = before(seen, keys.shape[2])[:, None, None]
    weights = masked_softmax(scores.unflatten(2, (-1, new)), visible).flatten(2, 3)
    out = torch.matmul(weights, values.float()).unflatten(2, (-1, new))  # [B, Hkv, G, s1, Dv]
    return out.permute(0, 3, 1, 2, 4).flatten(2, 3)


def table_and_lengths(size: Size, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """Block table [B, width] and lengths [B], int32."""
    lengths = torch.tensor(size.lengths, dtype=torch.int32, device=device)
    return block_table(lengths, size.block_size, size.blocks, size.width), lengths
