"""Grouped-query attention in which each block of queries sees the blocks of keys that a mask allows.

Formula: query row i sees key row j if block_sparse_mask[b, h, i / block_x, j / block_y];
    O = softmax(q k^T * scale) v over what is seen,   LSE = log sum exp(q k^T * scale)
query head h uses kv head h / (Hq / Hkv).

Shapes: query [B, Hq, Sq, D]; key, value [B, Hkv, Skv, D]; block_sparse_mask [B, Hq, ceil(Sq / block_x),
ceil(Skv / block_y)] bool, at least one True in every row. Sq and Skv need not be multiples of the blocks. Outputs: O
[B, Hq, Sq, D] in query's dtype, LSE [B, Hq, Sq] float32. Computed in float32; scale defaults to D^-0.5.
Source: block-sparse attention as in FlashAttention (Dao et al. 2022, section 3.3).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.inputs import Draw, block_mask, pick_case


class Size(NamedTuple):
    batch: int
    heads: int
    kv_heads: int
    tokens: int
    keys: int
    dim: int
    density: float
    block_x: int = 256
    block_y: int = 512


_SIZES = {
    "smoke": Size(1, 4, 2, 50, 70, 16, 0.5, block_x=16, block_y=32),
    "s256": Size(1, 4, 2, 256, 256, 128, 1.0),
    "s2048": Size(1, 4, 2, 2048, 2048, 128, 0.5),
}
CASES = tuple(_SIZES)


def block_sparse_attention_fwd_golden(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    block_sparse_mask: torch.Tensor,
    block_x: int = 256,
    block_y: int = 512,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return O [B, Hq, Sq, D] in query's dtype and LSE [B, Hq, Sq] float32."""
    group = query.shape[1] // key.shape[1]
    scores = masked_scores(query, key, block_sparse_mask, block_x, block_y, scale)
    values = value.float().repeat_interleave(group, dim=1)
    out = torch.matmul(torch.softmax(scores, dim=-1), values)
    return out.to(query.dtype), torch.logsumexp(scores, dim=-1)


def masked_scores(
    query: torch.Tensor,
    key: torch.Tensor,
    block_sparse_mask: torch.Tensor,
    block_x: int,
    block_y: int,
    scale: float | None,
) -> torch.Tensor:
    """Scaled scores [B, Hq, Sq, Skv] in float32, -inf where the mask hides the key."""
    keys = key.float().repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = torch.matmul(query.float(), keys.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    visible = block_sparse_mask.repeat_interleave(block_x, dim=-2).repeat_interleave(block_y, dim=-1)
    return scores.masked_fill(~visible[..., : scores.shape[-2], : scores.shape[-1]], float("-inf"))


def make_inputs(size: Size, device: torch.device | str) -> dict:
    """Inputs of a size."""
    draw = Draw(device, torch.float16)
    blocks = (-(-size.tokens // size.block_x), -(-size.keys // size.block_y))
    return {
        "query": draw.normal(size.batch, size.heads, size.tokens, size.dim),
        "key": draw.normal(size.batch, size.kv_heads, size.keys, size.dim),
        "value": draw.normal(size.batch, size.kv_heads, size.keys, size.dim),
        "block_sparse_mask": block_mask((size.batch, size.heads, *blocks), size.density, device),
        "block_x": size.block_x,
        "block_y": size.block_y,
    }


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    return (), make_inputs(pick_case(_SIZES, case), device)
