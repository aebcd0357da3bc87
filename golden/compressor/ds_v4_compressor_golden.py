"""Compression of keys/values: every `ratio` tokens become one (DeepSeek V4 decode); updates the paged states in place.

Formula, for token i of sequence b at position p = start_pos[b] + i:
    kv = x Wkv^T,  score = x Wgate^T + ape[p mod ratio],  both written to the states at position p.
Only when (p + 1) mod ratio == 0 is a window complete and is one row made of it:
    c = sum_w softmax_w(score_w) * kv_w, per channel, over the window's tokens w = p - ratio + 1 … p
    row = RoPE(RMSNorm(c) * weight) on the last rope_dim channels [, times hadamard with `rotate`].
With Wkv of 2 D rows, windows overlap: the row sees the first D channels of the window before (nothing, before the
first) and the last D channels of its own, 2 * ratio tokens in one softmax. DeepSeek V4 does so at ratio 4.

The short cut: a call whose positions complete no window only writes the states and returns no row. Profile with
start_pos = ratio - S, so that the S-th token completes a window.

Shapes: x [B, S, H]; wkv, wgate [coff D, H], coff 1 or 2; ape [ratio, coff D] float32; weight [D] float32; cos, sin
[R, rope_dim] float32, row j for the j-th row that is made, in order of (b, i), R at least their number; hadamard [D,
D]; kv_state, score_state [blocks, block_size, coff D] float32; kv_block_table, score_block_table [B, width] int32;
start_pos [B] int32. Output [rows, D] in x's dtype. Computed in float32.
Source: DeepSeek V4 compressor. Chosen: RoPE rotates the pairs (2i, 2i + 1) in place, and its caller gives the row of
the window's first position; the window is read through the block table at any ratio, whereas one public reference
assumes that ratio and block size agree.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul, paged_rows, rms_norm, rope_tail, write_slots
from golden.inputs import Draw, block_table, pick_case, rope_tables


class _Size(NamedTuple):
    batch: int
    tokens: int
    hidden: int
    dim: int
    rope_dim: int
    ratio: int
    coff: int
    blocks: int
    block_size: int
    width: int


_SIZES = {
    "smoke": _Size(2, 2, 64, 32, 16, ratio=8, coff=1, blocks=9, block_size=16, width=4),
    "smoke_overlap": _Size(2, 2, 64, 32, 16, ratio=4, coff=2, blocks=9, block_size=16, width=4),
    "p0": _Size(2, 2, 64, 32, 16, ratio=8, coff=1, blocks=201, block_size=128, width=100),
    "p0_overlap": _Size(8, 4, 4096, 512, 64, ratio=4, coff=2, blocks=33, block_size=128, width=4),
}
CASES = tuple(_SIZES)


def ds_v4_compressor_golden(
    x: torch.Tensor,
    wkv: torch.Tensor,
    wgate: torch.Tensor,
    ape: torch.Tensor,
    weight: torch.Tensor,
    sin: torch.Tensor,
    cos: torch.Tensor,
    hadamard: torch.Tensor,
    kv_state: torch.Tensor,
    score_state: torch.Tensor,
    kv_block_table: torch.Tensor,
    score_block_table: torch.Tensor,
    start_pos: torch.Tensor,
    ratio: int,
    rotate: bool = False,
    eps: float = 1e-6,
) -> torch.Tensor:
    """Write the states and return the completed rows [rows, D] in x's dtype; [0, D] when no window is complete.

    ValueError when cos and sin have fewer rows than there are windows.
    """
    dim = weight.shape[0]
    positions = start_pos.long()[:, None] + torch.arange(x.shape[1], device=x.device)  # [B, S]
    scores = matmul(x, wgate.t()) + ape.float()[positions % ratio]
    for state, table, rows in (
        (kv_state, kv_block_table, matmul(x, wkv.t())),
        (score_state, score_block_table, scores),
    ):
        write_slots(state, paged_rows(table, positions, state.shape[1]), rows.flatten(0, 1))

    sequence, token = torch.nonzero((positions + 1) % ratio == 0, as_tuple=True)
    if len(sequence) == 0:
        return x.new_zeros(0, dim)
    if len(sequence) > len(cos):
        raise ValueError(f"{len(sequence)} windows are complete, but cos and sin have {len(cos)} rows.")

    window = positions[sequence, token][:, None] + torch.arange(1 - ratio, 1, device=x.device)  # [rows, ratio]
    kv = _read(kv_state, kv_block_table[sequence], window, dim)
    score = _read(score_state, score_block_table[sequence], window, dim, missing=float("-inf"))
    compressed = rms_norm((torch.softmax(score, dim=1) * kv).sum(1), weight, eps)
    rows = rope_tail(compressed, cos[: len(sequence)], sin[: len(sequence)])
    return (matmul(rows, hadamard) if rotate else rows).to(x.dtype)


def _read(
    state: torch.Tensor, table: torch.Tensor, window: torch.Tensor, dim: int, missing: float = 0.0
) -> torch.Tensor:
    """What the softmax runs over: [rows, ratio, D], or [rows, 2 ratio, D] when the state holds 2 D channels."""
    flat = state.flatten(0, 1)
    own = flat[paged_rows(table, window, state.shape[1])][..., -dim:]
    if state.shape[-1] == dim:
        return own
    previous = window - window.shape[1]
    rows = flat[paged_rows(table, previous, state.shape[1])][..., :dim]
    return torch.cat([rows.masked_fill((previous < 0)[..., None], missing), own], dim=1)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The states hold a history, as they do in decoding; the last token of every sequence completes a window."""
    size = pick_case(_SIZES, case)
    channels = size.coff * size.dim
    # The first window, or the second where windows overlap, so that it finds its predecessor.
    start = torch.full((size.batch,), size.coff * size.ratio - size.tokens, dtype=torch.int32, device=device)
    tables = [
        block_table(start + size.tokens, size.block_size, size.blocks, size.width, first_block=1, pad=True)
        for _ in range(2)
    ]
    rows = min(size.batch * size.tokens, size.batch * size.tokens // size.ratio + size.batch)
    first = torch.full((rows,), (size.coff - 1) * size.ratio, device=device)
    cos, sin = rope_tables(first, size.rope_dim, torch.float32)
    draw = Draw(device)
    return (), {
        "x": draw.normal(size.batch, size.tokens, size.hidden),
        "wkv": draw.normal(channels, size.hidden, scale=size.hidden**-0.5),
        "wgate": draw.normal(channels, size.hidden, scale=size.hidden**-0.5),
        "ape": draw.normal(size.ratio, channels, dtype=torch.float32),
        "weight": draw.ones(size.dim, dtype=torch.float32),
        "sin": sin,
        "cos": cos,
        "hadamard": draw.weight(size.dim, size.dim),
        "kv_state": draw.normal(size.blocks, size.block_size, channels, dtype=torch.float32),
        "score_state": draw.normal(size.blocks, size.block_size, channels, dtype=torch.float32),
        "kv_block_table": tables[0],
        "score_block_table": tables[1],
        "start_pos": start,
        "ratio": size.ratio,
    }
