"""One decoder layer of openPangu 7B for one new token; writes its key and value into the caches.

Formula, p = actual_kv_len: r = hidden_states + residual;   [q | k | v] = RMSNorm(r) Wqkv^T + qkv_bias;   RoPE (pairs
(i, i + D / 2)) on each head of q and k with row p of cos and sin;   k, v to row p of the caches;
    a = attention of q over rows 0 … p;   r' = r + a Wo^T + o_bias;   n = RMSNorm(r');
    y = (silu(n Wgate^T) * (n Wup^T)) Wdown^T

Shapes: hidden_states, residual [1, 1, H]; cos, sin [S, D]; key_cache, value_cache [S, Nkv D]; ln_weight [H, 2], a gain
per norm; qkv_weight [(N + 2 Nkv) D, H], qkv_bias; o_weight [H, N D], o_bias [H]; gate_weight, up_weight [I, H];
down_weight [H, I]; actual_kv_len [1] int64, below S. Outputs: y and r' [1, 1, H] in the dtype of hidden_states,
key_cache, value_cache. Query head n uses kv head n / (N / Nkv). Computed in float32; the new key and value are rounded
to the caches' dtype.
Source: openPangu-Embedded 7B (32 query heads, 8 kv heads, D 128). Chosen: y and r' are returned apart, as the next
layer's norm adds them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import before, masked_softmax, matmul, rms_norm, rope_half, swiglu
from golden.inputs import Draw, pick_case, rope_tables


class _Size(NamedTuple):
    hidden: int
    heads: int
    kv_heads: int
    dim: int
    inner: int
    rows: int
    used: int


_SIZES = {"smoke": _Size(64, 4, 2, 16, 96, 32, 20), "p0": _Size(4096, 32, 8, 128, 12800, 256, 128)}
CASES = tuple(_SIZES)
THETA = 1.6e7


def pangu_fused_layer_v2_bsh_golden(
    hidden_states: torch.Tensor,
    residual: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    ln_weight: torch.Tensor,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    o_weight: torch.Tensor,
    o_bias: torch.Tensor,
    gate_weight: torch.Tensor,
    up_weight: torch.Tensor,
    down_weight: torch.Tensor,
    actual_kv_len: torch.Tensor,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return y, r' [1, 1, H] and the caches, which are the arguments."""
    dtype, dim = hidden_states.dtype, cos.shape[-1]
    kv_heads = key_cache.shape[-1] // dim
    summed = (hidden_states.float() + residual.float())[0]  # [1, H]
    qkv = matmul(rms_norm(summed, ln_weight[:, 0], eps), qkv_weight.t()) + qkv_bias.float()
    q, k, v = qkv.unflatten(-1, (-1, dim)).split([o_weight.shape[1] // dim, kv_heads, kv_heads], dim=1)
    c, s = cos[actual_kv_len][:, None], sin[actual_kv_len][:, None]  # [1, 1, D]
    q, k = rope_half(q, c, s), rope_half(k, c, s)
    key_cache[actual_kv_len] = k.flatten(1).to(key_cache.dtype)
    value_cache[actual_kv_len] = v.flatten(1).to(value_cache.dtype)

    keys, values = (x.float().unflatten(-1, (kv_heads, dim)).transpose(0, 1) for x in (key_cache, value_cache))
    scores = torch.matmul(q[0].unflatten(0, (kv_heads, -1)), keys.transpose(-2, -1)) * dim**-0.5  # [Nkv, G, S]
    weights = masked_softmax(scores, before(actual_kv_len + 1, keys.shape[1])[:, None])
    attention = torch.matmul(weights, values).flatten()[None]
    hidden = summed + matmul(attention, o_weight.t()) + o_bias.float()
    normed = rms_norm(hidden, ln_weight[:, 1], eps)
    gated = swiglu(matmul(normed, gate_weight.t()), matmul(normed, up_weight.t()))
    return matmul(gated, down_weight.t())[None].to(dtype), hidden[None].to(dtype), key_cache, value_cache


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    cos, sin = rope_tables(torch.arange(size.rows, device=device), size.dim, torch.bfloat16, THETA)
    columns, width = (size.heads + 2 * size.kv_heads) * size.dim, size.heads * size.dim

    def weight(rows: int, inputs: int) -> torch.Tensor:
        return draw.normal(rows, inputs, scale=inputs**-0.5)

    return (), {
        "hidden_states": draw.normal(1, 1, size.hidden),
        "residual": draw.normal(1, 1, size.hidden),
        "cos": cos,
        "sin": sin,
        "key_cache": draw.normal(size.rows, size.kv_heads * size.dim),
        "value_cache": draw.normal(size.rows, size.kv_heads * size.dim),
        "ln_weight": draw.ones(size.hidden, 2),
        "qkv_weight": weight(columns, size.hidden),
        "qkv_bias": draw.normal(columns),
        "o_weight": weight(size.hidden, width),
        "o_bias": draw.normal(size.hidden),
        "gate_weight": weight(size.inner, size.hidden),
        "up_weight": weight(size.inner, size.hidden),
        "down_weight": weight(size.hidden, size.inner),
        "actual_kv_len": torch.full((1,), size.used, dtype=torch.int64, device=device),
    }
