"""The gated delta rule, one token or one chunk at a time, in float32.

State S [K, V], log gates g <= 0 per channel (KDA, g [K]) or per head (GDN, g [1]), write strength beta:
    S <- diag(exp(g)) S;   S <- S + k (beta (v - S^T k))^T;   o = scale S^T q

A chunk of C tokens is an algebraic rewrite of this. With G the running sum of g in the chunk and S0 the state before
it:
    L[i, j] = beta_i sum_k k_i k_j exp(G_i - G_j) for j < i;   T = (I + L)^-1
    w = T (beta k exp(G)),   u = T (beta v),   v_new = u - w S0
    o = scale ((q exp(G)) S0 + tril(sum_k q_i k_j exp(G_i - G_j)) v_new)
    S <- diag(exp(G_C)) S0 + (k exp(G_C - G))^T v_new
Gates appear as differences only, because exp(-G) overflows for strong gates.

Source: Yang et al. 2024 (gated delta networks), Kimi Linear 2025 (KDA). Tensors are [..., C, channels] unless stated.
"""

from __future__ import annotations

import torch


def l2norm(x: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """x / sqrt(sum x^2 + eps) over the last dim."""
    x = x.float()
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def repeat_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[B, T, H, K] to [B, T, heads, K]: each head serves heads / H neighbouring value heads."""
    return x.repeat_interleave(heads // x.shape[2], dim=2)


def token_step(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """o [..., V] and the new state [..., K, V] of one token: q, k [..., K]; v [..., V]; g [..., K or 1]; beta [...]."""
    state = state * torch.exp(g)[..., None]
    error = v - (k[..., None] * state).sum(-2)
    state = state + k[..., None] * (beta[..., None] * error)[..., None, :]
    return (q[..., None] * state).sum(-2) * scale, state


def decayed_products(a: torch.Tensor, b: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
    """[..., C, C]: sum over channels of a_i b_j exp(G_i - G_j) for j <= i, and 0 above the diagonal."""
    size = a.shape[-2]
    lower = torch.ones(size, size, dtype=torch.bool, device=a.device).tril()
    difference = gates[..., :, None, :] - gates[..., None, :, :]
    decay = torch.exp(difference.masked_fill(~lower[..., None], float("-inf")))
    if decay.shape[-1] == 1:
        return torch.matmul(a, b.transpose(-2, -1)) * decay[..., 0]
    return (a[..., :, None, :] * b[..., None, :, :] * decay).sum(-1)


def interactions(k: torch.Tensor, gates: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    """L [..., C, C], strictly lower triangular; beta [..., C]."""
    return decayed_products(k, k, gates).tril(-1) * beta[..., None]


def inverse(interaction: torch.Tensor) -> torch.Tensor:
    """(I + L)^-1 of strictly lower triangular L, by forward substitution."""
    identity = torch.eye(interaction.shape[-1], device=interaction.device).expand_as(interaction)
    return torch.linalg.solve_triangular(interaction, identity, upper=False, unitriangular=True)


def updates(
    t: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gates: torch.Tensor, beta: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """w [..., C, K] and u [..., C, V]."""
    strength = beta[..., None]
    return torch.matmul(t, strength * k * torch.exp(gates)), torch.matmul(t, strength * v)


def next_state(k: torch.Tensor, v_new: torch.Tensor, gates: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """The state [..., K, V] behind the chunk."""
    last = gates[..., -1:, :]
    kept = torch.exp(last).transpose(-2, -1) * state
    return kept + torch.matmul((k * torch.exp(last - gates)).transpose(-2, -1), v_new)


def outputs(
    q: torch.Tensor, k: torch.Tensor, v_new: torch.Tensor, gates: torch.Tensor, state: torch.Tensor, scale: float
) -> torch.Tensor:
    """o [..., C, V] from the state before the chunk and the chunk's own updates."""
    earlier = torch.matmul(q * torch.exp(gates), state)
    return (earlier + torch.matmul(decayed_products(q, k, gates), v_new)) * scale


def delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
    chunk: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """o [B, T, H, V] and the final state [B, H, K, V], float32, chunk by chunk; the last chunk may be shorter.

    q, k [B, T, H, K]; v [B, T, H, V]; g [B, T, H, K or 1]; beta [B, T, H]; state [B, H, K, V].
    """
    state = state.float()
    pieces = []
    heads_first = (x.float().transpose(1, 2).split(chunk, dim=2) for x in (q, k, v, g, beta))
    for q_c, k_c, v_c, g_c, beta_c in zip(*heads_first, strict=True):
        gates = g_c.cumsum(-2)
        w, u = updates(inverse(interactions(k_c, gates, beta_c)), k_c, v_c, gates, beta_c)
        v_new = u - torch.matmul(w, state)
        pieces.append(outputs(q_c, k_c, v_new, gates, state, scale))
        state = next_state(k_c, v_new, gates, state)
    return torch.cat(pieces, dim=2).transpose(1, 2), state


def to_chunks(x: torch.Tensor, chunk: int) -> torch.Tensor:
    """[B, T, H, D] to float32 [B, H, T / chunk, chunk, D], and [B, T, H] likewise without D."""
    return x.float().transpose(1, 2).unflatten(2, (-1, chunk))


def from_chunks(x: torch.Tensor) -> torch.Tensor:
    """[B, H, N, C, D] back to [B, N C, H, D]."""
    return x.flatten(2, 3).transpose(1, 2)
