"""Gradient of the gated memory lookup (Engram).

Formula, with c = RMSNorm(keys) gamma_k, n = RMSNorm(hidden) gamma_h and the gate's argument z = sign(s) sqrt(max(|s|,
1e-6)):
    d values = sum over groups of gate grad_out;   d gate = grad_out . values;   dz = d gate * gate (1 - gate)
    ds = dz / (2 sqrt(|s|)) where |s| > 1e-6, else 0;   dc = ds n / sqrt(H),  dn = ds c / sqrt(H)
    through each norm, with r = 1 / sqrt(mean(x^2) + eps): dx = r (gamma dy) - x r^3 mean(x gamma dy),  d gamma = sum dy
    x r dWk = e^T d keys,  dWv = e^T d values,  de = d keys Wk^T + d values Wv^T

Shapes: grad_out [B, S, G, H]; the inputs of engram_fwd; scores, gates [B, S, G] float32, keys [B, S, G, H] and values
[B, S, H] from it. Outputs in the dtypes of the inputs: d embedding, d hidden, d w_k, d w_v, d gamma_k, d gamma_h.
Computed in float32.
Source: differentiation of engram_fwd.
"""

from __future__ import annotations

import torch

from golden.engram.engram_fwd_golden import FLOOR, engram_fwd_golden
from golden.inputs import Draw, pick_case

# batch, tokens, embedding size, groups, hidden size
_SIZES = {"smoke": (2, 6, 16, 2, 32), "p0": (1, 1024, 1024, 1, 1024)}
CASES = tuple(_SIZES)


def engram_bwd_golden(
    grad_out: torch.Tensor,
    embedding: torch.Tensor,
    hidden: torch.Tensor,
    w_k: torch.Tensor,
    w_v: torch.Tensor,
    gamma_k: torch.Tensor,
    gamma_h: torch.Tensor,
    scores: torch.Tensor,
    gates: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return d embedding, d hidden, d w_k, d w_v, d gamma_k, d gamma_h."""
    upstream, e = grad_out.float(), embedding.float()
    d_values = (gates[..., None] * upstream).sum(2)
    d_gate = (upstream * values.float()[:, :, None]).sum(-1)
    d_z = d_gate * gates * (1 - gates)
    size = scores.abs()
    d_score = torch.where(size > FLOOR, d_z / (2 * size.clamp(min=FLOOR).sqrt()), 0.0)
    d_score = d_score[..., None] * hidden.shape[-1] ** -0.5

    key_norm, hidden_norm = _unit(keys, eps), _unit(hidden, eps)
    d_keys, d_gamma_k = _norm_backward(keys, gamma_k, d_score * hidden_norm * gamma_h.float(), eps)
    d_hidden, d_gamma_h = _norm_backward(hidden, gamma_h, d_score * key_norm * gamma_k.float(), eps)
    d_wk = torch.einsum("bse,bsgh->geh", e, d_keys)
    d_wv = torch.einsum("bse,bsh->eh", e, d_values)
    d_embedding = torch.einsum("bsgh,geh->bse", d_keys, w_k.float()) + d_values @ w_v.float().t()
    grads = (d_embedding, d_hidden, d_wk, d_wv, d_gamma_k, d_gamma_h)
    inputs = (embedding, hidden, w_k, w_v, gamma_k, gamma_h)
    return tuple(grad.to(x.dtype) for grad, x in zip(grads, inputs, strict=True))


def _unit(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)


def _norm_backward(
    x: torch.Tensor, gamma: torch.Tensor, dy: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of RMSNorm(x) gamma [B, S, G, H] for x and, summed over the tokens, for gamma [G, H]."""
    x, weighted = x.float(), dy * gamma.float()
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    dx = r * weighted - x * r**3 * (x * weighted).mean(-1, keepdim=True)
    return dx, (dy * x * r).sum((0, 1))


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The forward operator gives scores, gates, keys and values."""
    batch, tokens, width, groups, size = pick_case(_SIZES, case)
    draw = Draw(device)
    inputs = {
        "embedding": draw.normal(batch, tokens, width),
        "hidden": draw.normal(batch, tokens, groups, size),
        "w_k": draw.weight(groups, width, size),
        "w_v": draw.weight(width, size),
        "gamma_k": draw.ones(groups, size),
        "gamma_h": draw.ones(groups, size),
    }
    out, scores, gates, keys, values = engram_fwd_golden(**inputs)
    saved = {"scores": scores, "gates": gates, "keys": keys, "values": values}
    return (), {"grad_out": draw.normal(*out.shape)} | inputs | saved
