"""Decode attention of Gemma 4 with kv heads averaged in groups.

Formula: k' and v' are the means of every 4 neighbouring kv heads, repeated for the query heads that share them;
    O = softmax(q k'^T / 16 + mask) v'.   A local layer keeps the last `window` keys only.

Shapes: q [B, N, Sq, D]; k, v [B, Nkv, Skv, D], Nkv a multiple of 4, N of Nkv / 4; mask [B, 1, Sq, Skv], additive, or
None. Output [B, N, Sq, D] in q's dtype. Computed in float32.
Source: shapes of Gemma 4 31B (32 query heads, 16 stored kv heads, D 256, hence 1 / 16; window 1024).
"""

from __future__ import annotations

import torch

GROUP = 4  # stored kv heads that are averaged


def gemma4_gqa_decode_attn_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    layer_kind: str = "global",
    window: int = 1024,
    scale: float = 0.0625,
) -> torch.Tensor:
    """Return O [B, N, Sq, D] in q's dtype. ValueError when layer_kind is neither "global" nor "local"."""
    if layer_kind not in ("global", "local"):
        raise ValueError(f'layer_kind is {layer_kind!r}; it must be "global" or "local".')
    if layer_kind == "local":
        k, v = k[:, :, -window:], v[:, :, -window:]
        mask = mask if mask is None else mask[..., -window:]
    repeats = q.shape[1] // (k.shape[1] // GROUP)
    keys, values = (x.float().unflatten(1, (-1, GROUP)).mean(2).repeat_interleave(repeats, dim=1) for x in (k, v))
    scores = torch.matmul(q.float(), keys.transpose(-2, -1)) * scale
    if mask is not None:
        scores = scores + mask.float()
    return torch.matmul(torch.softmax(scores, dim=-1), values).to(q.dtype)
