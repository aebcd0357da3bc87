"""Steps that many goldens share, each written once: normalisation, rotary embedding, gating, paged caches.

All arithmetic is float32: arguments are raised to it, results stay in it, and the golden casts once at its end.
"""

from __future__ import annotations

import torch


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b in float32."""
    return torch.matmul(a.float(), b.float())


def rms_norm(x: torch.Tensor, gamma: torch.Tensor | None, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x^2) + eps) * gamma over the last dim; no gamma means ones."""
    x = x.float()
    normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return normed if gamma is None else normed * gamma.float()


def layer_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor | None, eps: float) -> torch.Tensor:
    """(x - mean) / sqrt(variance + eps) * gamma [+ beta] over the last dim, with the biased variance."""
    x = x.float() - x.float().mean(-1, keepdim=True)
    normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * gamma.float()
    return normed if beta is None else normed + beta.float()


def rope_half(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + D/2) of the last dim D: cat(x1 c - x2 s, x2 c + x1 s).

    cos, sin broadcast against x, with last dim D (two equal halves, of which the first is used) or D/2.
    """
    x1, x2 = x.float().chunk(2, dim=-1)
    c, s = (table[..., : x1.shape[-1]].float() for table in (cos, sin))
    return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], dim=-1)


def rope_pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (2i, 2i + 1) of the last dim and leave each where it was. cos, sin as in `rope_half`."""
    return torch.stack(_rotated_pairs(x, cos, sin), dim=-1).flatten(-2)


def rope_interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (2i, 2i + 1) and return all first members, then all second ones. cos, sin as in `rope_half`."""
    return torch.cat(_rotated_pairs(x, cos, sin), dim=-1)


def rope_first(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """`rope_half` on the first cos.shape[-1] channels of x; the channels behind them pass."""
    turned, plain = x.float().split([cos.shape[-1], x.shape[-1] - cos.shape[-1]], dim=-1)
    return torch.cat([rope_half(turned, cos, sin), plain], dim=-1)


def rope_tail(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """`rope_pairs` on the last cos.shape[-1] channels of x; the channels before them pass."""
    plain, turned = x.float().split([x.shape[-1] - cos.shape[-1], cos.shape[-1]], dim=-1)
    return torch.cat([plain, rope_pairs(turned, cos, sin)], dim=-1)


def _rotated_pairs(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = (table[..., : even.shape[-1]].float() for table in (cos, sin))
    return even * c - odd * s, odd * c + even * s


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up in float32."""
    return torch.nn.functional.silu(gate.float()) * up.float()


def gather_pages(cache: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """The tokens of every sequence, [batch, width * block_size, ...], from pages [blocks, block_size, ...].

    Padding ids (-1) read page 0; the caller masks what lies beyond a sequence's length.
    """
    return cache[table.long().clamp(min=0)].flatten(1, 2)


def paged_rows(table: torch.Tensor, positions: torch.Tensor, block_size: int) -> torch.Tensor:
    """Flat cache rows (int64) of token positions [n, m] in sequences whose tables are the rows of table [n, width].

    Negative positions are read as position 0, and padding ids as page 0; the caller masks them.
    """
    positions = positions.long().clamp(min=0)
    return table.long().gather(1, positions // block_size).clamp(min=0) * block_size + positions % block_size


def write_slots(cache: torch.Tensor, slots: torch.Tensor, rows: torch.Tensor) -> None:
    """Write rows [n, ...] in place to flat slots [n] of a paged cache [blocks, block_size, ...]; -1 skips its row."""
    slots = slots.flatten().long()
    written = slots >= 0
    cache.flatten(0, 1)[slots[written]] = rows[written].to(cache.dtype)


def before(lengths: torch.Tensor, size: int) -> torch.Tensor:
    """Bool [*lengths.shape, size], True at the positions below each length."""
    return torch.arange(size, device=lengths.device) < lengths[..., None]


def owner(ends: torch.Tensor, size: int) -> torch.Tensor:
    """int64 [size]: the sequence or group of each packed row, from the cumulative ends [B] without the leading 0."""
    rows = torch.arange(size, device=ends.device)
    return (rows[:, None] >= ends).sum(-1)


def sink_softmax(scores: torch.Tensor, visible: torch.Tensor, sink: torch.Tensor) -> torch.Tensor:
    """`masked_softmax` with exp(sink) added to the denominator; sink broadcasts to scores[..., :1]."""
    scores = scores.masked_fill(~visible, float("-inf"))
    sink = sink.float().expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, sink], dim=-1), dim=-1)[..., :-1]


def masked_softmax(scores: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dim of the `visible` entries; the others get weight 0. A row needs one visible entry."""
    return torch.softmax(scores.masked_fill(~visible, float("-inf")), dim=-1)


def top_indices(scores: torch.Tensor, valid: torch.Tensor, k: int) -> torch.Tensor:
    """int32 [..., k]: positions of the largest scores [..., S], best first, then -1 from min(valid, S, k) on.

    Scores of invalid positions must be -inf.
    """
    width = min(k, scores.shape[-1])
    best = scores.topk(width, dim=-1).indices
    best = best.masked_fill(~before(valid, width), -1)
    return torch.nn.functional.pad(best, (0, k - width), value=-1).to(torch.int32)
