"""The attention of a GLM-4.5 layer for one new token per sequence, from residual add to heads; writes its caches.

Formula: glm_attention_pre_quant; k and v are written at slot_mapping; glm_paged_attention over the written caches.

Shapes: those of the two operators; hidden_states, residual [B, H]; qkv_weight [H, (N + 2 Nkv) D] int8; k_cache, v_cache
[blocks, block_size, Nkv, D]; block_tables [B, width] int32, -1 beyond the pages in use; actual_seqs [B] int32, counting
the new token; slot_mapping [B] int32, the slot of position actual_seqs - 1, or -1 for no write. Outputs: attention [B,
N D] and residual_out [B, H] in the dtype of hidden_states, k_cache, v_cache.
Source: GLM-4.5.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import write_slots
from golden.dense_attention.glm_paged_attention_golden import glm_paged_attention_golden
from golden.inputs import Draw, block_table, pick_case, rope_tables, slots_of
from golden.mla_prolog.glm_attention_pre_quant_golden import glm_attention_pre_quant_golden


class Size(NamedTuple):
    """Sizes of a case; the lengths count the new token."""

    lengths: tuple[int, ...]
    hidden: int
    heads: int
    kv_heads: int
    dim: int
    rotary: int
    blocks: int
    block_size: int
    width: int


_SIZES = {
    "smoke": Size((60, 1, 33), 128, 4, 1, 16, 8, blocks=12, block_size=16, width=4),
    "p0": Size((512, 512), 5120, 12, 1, 128, 64, blocks=32, block_size=128, width=4),
}
CASES = tuple(_SIZES)


def glm_attention_golden(
    hidden_states: torch.Tensor,
    residual: torch.Tensor,
    ln_gamma: torch.Tensor,
    ln_bias: torch.Tensor,
    x_scale: torch.Tensor,
    x_offset: torch.Tensor,
    qkv_weight: torch.Tensor,
    quant_bias: torch.Tensor,
    deq_scale: torch.Tensor,
    q_gamma: torch.Tensor,
    q_bias: torch.Tensor,
    k_gamma: torch.Tensor,
    k_bias: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_tables: torch.Tensor,
    actual_seqs: torch.Tensor,
    slot_mapping: torch.Tensor,
    num_heads: int = 12,
    num_kv_heads: int = 1,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return attention [B, N D], residual_out [B, H], k_cache, v_cache; the caches are the arguments."""
    q, k, v, residual_out = glm_attention_pre_quant_golden(
        hidden_states,
        residual,
        ln_gamma,
        ln_bias,
        x_scale,
        x_offset,
        qkv_weight,
        quant_bias,
        deq_scale,
        q_gamma,
        q_bias,
        k_gamma,
        k_bias,
        cos,
        sin,
        num_heads,
        num_kv_heads,
        eps,
    )
    for cache, rows in ((k_cache, k), (v_cache, v)):
        write_slots(cache, slot_mapping, rows.unflatten(-1, (num_kv_heads, -1)))
    heads = q.unflatten(-1, (num_heads, -1))
    out = glm_paged_attention_golden(heads, k_cache, v_cache, block_tables, actual_seqs)
    return out.flatten(1), residual_out, k_cache, v_cache


def make_inputs(size: Size, device: torch.device | str) -> dict:
    """Inputs of a size; the caches hold a history."""
    draw = Draw(device)
    lengths = torch.tensor(size.lengths, dtype=torch.int32, device=device)
    batch, columns = len(lengths), (size.heads + 2 * size.kv_heads) * size.dim
    table = block_table(lengths, size.block_size, size.blocks, size.width)
    last = lengths.long()[:, None] - 1
    angle = rope_tables(last, size.rotary, torch.bfloat16)
    cos, sin = (x[..., : size.rotary // 2] for x in angle)  # [B, 1, rotary / 2]
    cache = (size.blocks, size.block_size, size.kv_heads, size.dim)
    return {
        "hidden_states": draw.normal(batch, size.hidden),
        "residual": draw.normal(batch, size.hidden),
        "ln_gamma": draw.ones(size.hidden),
        "ln_bias": draw.zeros(size.hidden),
        "x_scale": draw.ones(size.hidden) * 30,
        "x_offset": draw.zeros(size.hidden),
        "qkv_weight": draw.integers(-127, 128, size.hidden, columns),
        "quant_bias": draw.integers(-100, 100, columns, dtype=torch.int32),
        "deq_scale": draw.uniform(1e-6, 1e-5, columns),
        "q_gamma": draw.ones(size.dim),
        "q_bias": draw.zeros(size.dim),
        "k_gamma": draw.ones(size.dim),
        "k_bias": draw.zeros(size.dim),
        "cos": cos.contiguous(),
        "sin": sin.contiguous(),
        "k_cache": draw.normal(*cache),
        "v_cache": draw.normal(*cache),
        "block_tables": table,
        "actual_seqs": lengths,
        "slot_mapping": slots_of(table, last, size.block_size)[:, 0].to(torch.int32),
        "num_heads": size.heads,
        "num_kv_heads": size.kv_heads,
    }


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    return (), make_inputs(pick_case(_SIZES, case), device)
