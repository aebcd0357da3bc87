"""What prefill and decode of a Qwen3 decoder layer share, in float32."""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul, rms_norm, rope_half, swiglu


class Layer(NamedTuple):
    """Weights of one layer: projections [in, out], gains [in]."""

    input_ln: torch.Tensor
    wq: torch.Tensor
    wk: torch.Tensor
    wv: torch.Tensor
    wo: torch.Tensor
    q_norm: torch.Tensor
    k_norm: torch.Tensor
    post_ln: torch.Tensor
    w_gate: torch.Tensor
    w_up: torch.Tensor
    w_down: torch.Tensor
    eps: float


def project(
    x: torch.Tensor, layer: Layer, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q [B, Nq, S, D], k and v [B, Nkv, S, D] of x [B, S, H]; q and k normed per head and rotated."""
    dim = layer.q_norm.shape[0]
    normed = rms_norm(x, layer.input_ln, layer.eps)
    q, k, v = (matmul(normed, w).unflatten(-1, (-1, dim)).transpose(1, 2) for w in (layer.wq, layer.wk, layer.wv))
    q = rope_half(rms_norm(q, layer.q_norm, layer.eps), cos, sin)
    k = rope_half(rms_norm(k, layer.k_norm, layer.eps), cos, sin)
    return q, k, v


def finish(x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: Layer) -> torch.Tensor:
    """The layer's output [B, S, H]: causal attention, output projection, gated MLP, both residual adds.

    The queries are the last S of the keys' positions.
    """
    group = q.shape[1] // k.shape[1]
    keys, values = (t.float().repeat_interleave(group, dim=1) for t in (k, v))
    scores = torch.matmul(q, keys.transpose(-2, -1)) * q.shape[-1] ** -0.5
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])
    attention = torch.matmul(torch.softmax(scores.masked_fill(~visible, float("-inf")), dim=-1), values)
    hidden = x.float() + matmul(attention.transpose(1, 2).flatten(2), layer.wo)
    normed = rms_norm(hidden, layer.post_ln, layer.eps)
    return hidden + matmul(swiglu(matmul(normed, layer.w_gate), matmul(normed, layer.w_up)), layer.w_down)
