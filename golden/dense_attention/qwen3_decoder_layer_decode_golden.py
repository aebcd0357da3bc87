"""One decoder layer of Qwen3 for one new token, with a contiguous cache.

Formula: that of qwen3_decoder_layer_prefill; the new key and value are appended to the cache, and the token sees all.

Shapes: x [B, 1, H]; weights as in prefill; cos, sin [1, D], those of the new token's position, which is the cache's
length; k_cache, v_cache [B, Nkv, S, D]. Outputs: y [B, 1, H] in x's dtype, the caches [B, Nkv, S + 1, D] in their
dtype, new tensors. Computed in float32; the new key and value are rounded to the cache's dtype before they are used.
Source: Qwen3 1.7B.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.dense_attention.qwen3_layer import Layer, finish, project
from golden.inputs import Draw, pick_case, rope_tables


class _Size(NamedTuple):
    batch: int
    hidden: int
    heads: int
    kv_heads: int
    dim: int
    inner: int
    cached: int


_SIZES = {"smoke": _Size(2, 64, 4, 2, 16, 96, 20), "p0": _Size(1, 2048, 16, 8, 128, 6144, 128)}
CASES = tuple(_SIZES)


def qwen3_decoder_layer_decode_golden(
    x: torch.Tensor,
    input_ln: torch.Tensor,
    wq: torch.Tensor,
    wk: torch.Tensor,
    wv: torch.Tensor,
    wo: torch.Tensor,
    q_norm: torch.Tensor,
    k_norm: torch.Tensor,
    post_ln: torch.Tensor,
    w_gate: torch.Tensor,
    w_up: torch.Tensor,
    w_down: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return y [B, 1, H] and the longer caches [B, Nkv, S + 1, D]."""
    layer = Layer(input_ln, wq, wk, wv, wo, q_norm, k_norm, post_ln, w_gate, w_up, w_down, eps)
    q, k, v = project(x, layer, cos, sin)
    keys = torch.cat([k_cache, k.to(k_cache.dtype)], dim=2)
    values = torch.cat([v_cache, v.to(v_cache.dtype)], dim=2)
    return finish(x, q, keys, values, layer).to(x.dtype), keys, values


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    cos, sin = rope_tables(torch.full((1,), size.cached, device=device), size.dim, torch.bfloat16)
    cache = (size.batch, size.kv_heads, size.cached, size.dim)
    return (), {
        "x": draw.normal(size.batch, 1, size.hidden),
        "input_ln": draw.ones(size.hidden),
        "wq": draw.weight(size.hidden, size.heads * size.dim),
        "wk": draw.weight(size.hidden, size.kv_heads * size.dim),
        "wv": draw.weight(size.hidden, size.kv_heads * size.dim),
        "wo": draw.weight(size.heads * size.dim, size.hidden),
        "q_norm": draw.ones(size.dim),
        "k_norm": draw.ones(size.dim),
        "post_ln": draw.ones(size.hidden),
        "w_gate": draw.weight(size.hidden, size.inner),
        "w_up": draw.weight(size.hidden, size.inner),
        "w_down": draw.weight(size.inner, size.hidden),
        "cos": cos,
        "sin": sin,
        "k_cache": draw.normal(*cache),
        "v_cache": draw.normal(*cache),
    }
