"""One decoder layer of Qwen3 over a prompt.

Formula: h = x + causal-attention(RMSNorm(x)) Wo, with RMSNorm and RoPE (pairs (i, i + D / 2)) on each head of q and k;
    y = h + SwiGLU-MLP(RMSNorm(h)).

Shapes: x [B, S, H]; input_ln, post_ln [H]; wq [H, Nq D]; wk, wv [H, Nkv D]; wo [Nq D, H]; q_norm, k_norm [D]; w_gate,
w_up [H, I]; w_down [I, H]; cos, sin [S, D]. Output y [B, S, H] in x's dtype. Query head n uses kv head n / (Nq / Nkv).
Computed in float32 throughout, one cast at the end.
Source: Qwen3 1.7B (16 query heads, 8 kv heads, D 128).
"""

from __future__ import annotations

import torch

from golden.dense_attention.qwen3_layer import Layer, finish, project


def qwen3_decoder_layer_prefill_golden(
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
    eps: float = 1e-6,
) -> torch.Tensor:
    """Return y [B, S, H] in x's dtype."""
    layer = Layer(input_ln, wq, wk, wv, wo, q_norm, k_norm, post_ln, w_gate, w_up, w_down, eps)
    return finish(x, *project(x, layer, cos, sin), layer).to(x.dtype)
