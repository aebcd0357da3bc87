"""Gated memory lookup: an embedding is let through as far as it agrees with the hidden state (Engram).

Formula, per token and group: keys = e Wk;   s = RMSNorm(keys) gamma_k . RMSNorm(hidden) gamma_h / sqrt(H);
    gate = sigmoid(sign(s) sqrt(max(|s|, 1e-6)));   values = e Wv;   out = gate * values

Shapes: embedding [B, S, E]; hidden [B, S, G, H]; w_k [G, E, H]; w_v [E, H]; gamma_k, gamma_h [G, H]. Outputs: out
[B, S, G, H] in hidden's dtype; for the backward pass scores and gates [B, S, G] float32, keys [B, S, G, H] before their
norm and values [B, S, H], both in hidden's dtype. Computed in float32.
Source: Engram (2026). Chosen: the floor 1e-6 of one description; another has sqrt(|s| + 1e-4) and biases, which differs
near s = 0.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, rms_norm

FLOOR = 1e-6  # of |score| under the root


def engram_fwd_golden(
    embedding: torch.Tensor,
    hidden: torch.Tensor,
    w_k: torch.Tensor,
    w_v: torch.Tensor,
    gamma_k: torch.Tensor,
    gamma_h: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return out [B, S, G, H], scores and gates [B, S, G], keys [B, S, G, H], values [B, S, H]."""
    keys = torch.einsum("bse,geh->bsgh", embedding.float(), w_k.float())
    agreement = rms_norm(keys, gamma_k, eps) * rms_norm(hidden, gamma_h, eps)
    scores = agreement.sum(-1) * hidden.shape[-1] ** -0.5
    gates = torch.sigmoid(torch.sign(scores) * scores.abs().clamp(min=FLOOR).sqrt())
    values = matmul(embedding, w_v)
    out = gates[..., None] * values[:, :, None]
    dtype = hidden.dtype
    return out.to(dtype), scores, gates, keys.to(dtype), values.to(dtype)
