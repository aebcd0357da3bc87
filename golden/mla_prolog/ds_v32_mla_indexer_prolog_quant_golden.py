"""MLA projections and indexer projections in one operator, int8 query paths (DeepSeek V3.2); writes five caches.

Formula: ds_v32_mla_prolog_quant, whose quantised query latent also feeds ds_v32_lightning_indexer_prolog_quant. RoPE of
the MLA part de-interleaves the pairs (2i, 2i + 1); the indexer's rotates the pairs (i, i + Dr / 2).

Shapes: as in those two; w_uq_qr_scale [1, N (Dn + Dr)] and w_idx_qb_scale [Ni Di] float32. All five caches share
cache_index [1, T]. Outputs: the seven of the MLA part (q_nope, q_rope, q_norm, q_norm_scale, kv_cache, kr_cache,
k_scale_cache), then the five of the indexer (q int8 [T, Ni, Di], q_scale float16 [T, Ni], idx_k_cache,
idx_k_scale_cache, weights float16 [T, Ni]).
Source: DeepSeek V3.2 (sparse attention with a lightning indexer).
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case
from golden.lightning_indexer.ds_v32_lightning_indexer_prolog_quant_golden import (
    ds_v32_lightning_indexer_prolog_quant_golden,
)
from golden.mla_prolog import ds_v32_mla_prolog_quant_golden as mla

# indexer heads, indexer head dim
_SIZES = {"smoke": (4, 16), "p0": (64, 128)}
CASES = tuple(_SIZES)


def ds_v32_mla_indexer_prolog_quant_golden(
    x: torch.Tensor,
    w_dq: torch.Tensor,
    w_uq_qr: torch.Tensor,
    w_uq_qr_scale: torch.Tensor,
    w_uk: torch.Tensor,
    w_dkv_kr: torch.Tensor,
    gamma_cq: torch.Tensor,
    gamma_ckv: torch.Tensor,
    w_idx_qb: torch.Tensor,
    w_idx_qb_scale: torch.Tensor,
    wk: torch.Tensor,
    w_proj: torch.Tensor,
    ln_gamma: torch.Tensor,
    ln_beta: torch.Tensor,
    hadamard_q: torch.Tensor,
    hadamard_k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    kv_cache: torch.Tensor,
    kr_cache: torch.Tensor,
    k_scale_cache: torch.Tensor,
    idx_k_cache: torch.Tensor,
    idx_k_scale_cache: torch.Tensor,
    cache_index: torch.Tensor,
    eps: float = 1e-5,
    ln_eps: float = 1e-6,
) -> tuple[torch.Tensor, ...]:
    """Return the seven outputs of the MLA part, then the five of the indexer."""
    attention = mla.ds_v32_mla_prolog_quant_golden(
        x,
        w_dq,
        w_uq_qr,
        w_uq_qr_scale,
        w_uk,
        w_dkv_kr,
        gamma_cq,
        gamma_ckv,
        cos,
        sin,
        kv_cache,
        kr_cache,
        k_scale_cache,
        cache_index,
        eps,
    )
    q_norm, q_norm_scale = attention[2:4]
    indexer = ds_v32_lightning_indexer_prolog_quant_golden(
        x,
        q_norm,
        q_norm_scale,
        w_idx_qb,
        w_idx_qb_scale,
        wk,
        w_proj,
        ln_gamma,
        ln_beta,
        cos,
        sin,
        hadamard_q,
        hadamard_k,
        idx_k_cache,
        idx_k_scale_cache,
        cache_index,
        ln_eps,
    )
    return *attention, *indexer


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The inputs of the MLA part, and the indexer's weights and caches beside them."""
    heads, dim = pick_case(_SIZES, case)
    _, inputs = mla._make_inputs(device, case)
    draw = Draw(device)
    hidden, q_lora = inputs["x"].shape[1], inputs["gamma_cq"].shape[0]
    blocks, block_size = inputs["kv_cache"].shape[:2]
    inputs["w_uq_qr_scale"] = inputs.pop("w_qb_scale")
    return (), inputs | {
        "w_idx_qb": draw.integers(-127, 128, q_lora, heads * dim),
        "w_idx_qb_scale": draw.uniform(1e-4, 1e-3, heads * dim),
        "wk": draw.weight(hidden, dim),
        "w_proj": draw.weight(hidden, heads),
        "ln_gamma": draw.ones(dim),
        "ln_beta": draw.zeros(dim),
        "hadamard_q": draw.weight(dim, dim),
        "hadamard_k": draw.weight(dim, dim),
        "idx_k_cache": draw.zeros(blocks, block_size, 1, dim, dtype=torch.int8),
        "idx_k_scale_cache": draw.zeros(blocks, block_size, 1, 1, dtype=torch.float16),
    }
