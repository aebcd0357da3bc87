"""Gated delta rule backward, chunk by chunk, from the inverse that the forward saved.

Formula: the derivative of the chunk form in delta_rule.py, from the last chunk to the first. With A = (I + L)^-1,
x = beta k exp(G), y = beta v, the score matrix P and D[i, j] = exp(G_i - G_j):
    dv_new = P^T do + (k exp(G_C - G)) dS;   dw = -dv_new S0^T;   dx = A^T dw,  dy = A^T dv_new
    dL = -A^T (dw x^T + dv_new y^T) A^T, below the diagonal;   dS0 = scale (q exp(G))^T do + exp(G_C) dS - w^T dv_new
and dq, dk, dv, dbeta, dG by the product rule; dg is the sum of dG from a token to the end of its chunk.

Shapes: q, k, v, g, beta, initial_state as in gdr_fwd; A [B, T, HV, chunk_size] float32 from it, with the same chunk
size; do [B, T, HV, V]; dht [B, HV, K, V] float32. Outputs: dq, dk, dv in the dtypes of q, k, v; dbeta, dg [B, T, HV]
and dh0 [B, HV, K, V], float32. Gradients of a query/key head add up over the value heads it serves. Computed in
float32.
Source: differentiation of gdr_fwd. Chosen: g and dg are raw, not summed over the chunk.
"""

from __future__ import annotations

import torch

from golden.linear_attention import delta_rule as rule
from golden.linear_attention import gdr_fwd_golden as forward

CASES = forward.CASES


def gdr_bwd_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    A: torch.Tensor,
    initial_state: torch.Tensor,
    do: torch.Tensor,
    dht: torch.Tensor,
    chunk_size: int = 64,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dq, dk, dv, dbeta, dg, dh0."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    heads = v.shape[2]
    query, key = (rule.to_chunks(rule.repeat_heads(x, heads), chunk_size) for x in (q, k))
    value, gates, strength, a, d_out = (rule.to_chunks(x, chunk_size) for x in (v, g[..., None], beta, A, do))
    gates = gates.cumsum(-2)
    w, u = rule.updates(a, key, value, gates, strength)

    states = [initial_state.float()]
    for n in range(query.shape[2]):
        v_new = u[:, :, n] - torch.matmul(w[:, :, n], states[-1])
        states.append(rule.next_state(key[:, :, n], v_new, gates[:, :, n], states[-1]))

    d_state, grads = dht.float(), []
    for n in reversed(range(query.shape[2])):
        parts = (x[:, :, n] for x in (query, key, value, gates, strength, a, w, u, d_out))
        *chunk_grads, d_state = _chunk_backward(*parts, states[n], d_state, scale)
        grads.append(chunk_grads)
    dq, dk, dv, dbeta, dg = (torch.stack(x[::-1], dim=2) for x in zip(*grads, strict=True))
    dq, dk = (rule.from_chunks(x).unflatten(2, (q.shape[2], -1)).sum(3) for x in (dq, dk))
    return (
        dq.to(q.dtype),
        dk.to(k.dtype),
        rule.from_chunks(dv).to(v.dtype),
        rule.from_chunks(dbeta[..., None])[..., 0],
        rule.from_chunks(dg[..., None])[..., 0],
        d_state,
    )


def _chunk_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gates: torch.Tensor,
    beta: torch.Tensor,
    a: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    do: torch.Tensor,
    state: torch.Tensor,
    d_state: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, ...]:
    """dq, dk, dv [..., C, D], dbeta, dg [..., C] and the gradient of the state before the chunk."""
    strength, since_start = beta[..., None], torch.exp(gates)  # [..., C, 1]
    to_end = torch.exp(gates[..., -1:, :] - gates)
    ones = torch.ones_like(gates)
    decay = rule.decayed_products(ones, ones, gates)  # D, lower triangular
    transposed = a.transpose(-2, -1)
    v_new = u - torch.matmul(w, state)

    # o = scale ((q exp(G)) S0 + tril(q k^T D) v_new) and S = exp(G_C) S0 + (k exp(G_C - G))^T v_new
    qk = torch.matmul(q, k.transpose(-2, -1))
    dp = torch.matmul(do, v_new.transpose(-2, -1)) * decay * scale
    dv_new = torch.matmul((qk * decay).transpose(-2, -1), do) * scale + torch.matmul(k * to_end, d_state)
    d_started = torch.matmul(do, state.transpose(-2, -1)) * scale
    d_ended = torch.matmul(v_new, d_state.transpose(-2, -1))
    dq = d_started * since_start + torch.matmul(dp, k)
    dk = torch.matmul(dp.transpose(-2, -1), q) + d_ended * to_end

    # v_new = A (beta v) - A (beta k exp(G)) S0
    dw = -torch.matmul(dv_new, state.transpose(-2, -1))
    dx, dy = torch.matmul(transposed, dw), torch.matmul(transposed, dv_new)
    x, y = strength * k * since_start, strength * v
    da = torch.matmul(dw, x.transpose(-2, -1)) + torch.matmul(dv_new, y.transpose(-2, -1))
    dl = -torch.matmul(torch.matmul(transposed, da), transposed).tril(-1) * decay

    # L = beta k k^T D below the diagonal
    kk = torch.matmul(k, k.transpose(-2, -1))
    dkk = dl * strength
    dk = dk + dx * strength * since_start + torch.matmul(dkk, k) + torch.matmul(dkk.transpose(-2, -1), k)
    dbeta = (dy * v).sum(-1) + (dx * k * since_start).sum(-1) + (dl * kk).sum(-1)

    # Every gate factor is exp of a sum, so its gradient is the factor times the factor's own gradient.
    by_pair = dp * qk + dkk * kk
    d_gates = by_pair.sum(-1) - by_pair.sum(-2)
    d_gates = d_gates + ((d_started * q + dx * strength * k) * since_start).sum(-1)
    by_end = (d_ended * k * to_end).sum(-1)
    kept = (d_state * state).sum((-2, -1)) * since_start[..., -1, 0]
    at_end = torch.nn.functional.pad((by_end.sum(-1) + kept)[..., None], (beta.shape[-1] - 1, 0))
    d_gates = d_gates - by_end + at_end
    dg = d_gates.flip(-1).cumsum(-1).flip(-1)

    d_before = torch.matmul((q * since_start).transpose(-2, -1), do) * scale
    d_before = d_before + since_start[..., -1:, :] * d_state - torch.matmul(w.transpose(-2, -1), dv_new)
    return dq, dk, dy * strength, dbeta, dg, d_before


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The forward operator on its own inputs gives A."""
    _, inputs = forward._make_inputs(device, case)
    out, a, state = forward.gdr_fwd_golden(**inputs)
    return (), inputs | {
        "A": a,
        "do": torch.randn(out.shape, device=device).to(out.dtype),
        "dht": torch.randn(state.shape, device=device),
    }
