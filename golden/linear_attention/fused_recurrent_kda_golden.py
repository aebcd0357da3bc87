"""Kimi delta attention for the new tokens of many sequences, each with state slots in a pool; updates the pool in
place.

Formula: per sequence, token by token, with q / |q| and k / |k|:
    S <- diag(exp(g)) S;   S <- S + k (beta (v - S^T k))^T;   o = scale S^T q
Sequence n starts from the slot in column num_accepted_tokens[n] - 1 of its row of ssm_state_indices: the state behind
the last token that was accepted in the step before. The state behind its token t goes to column t; with one column, the
state behind its last token goes there. Slot 0 is the null slot: it is never written.

Shapes: q, k [1, T, H, K]; v [1, T, H, V]; g [1, T, H, K], log decay, <= 0; beta [1, T, H] float32, in 0 … 1; state_pool
[slots, H, V, K] float32; cu_seqlens [N + 1] int32, cumulative from 0, sequences not empty; ssm_state_indices [N] or [N,
M] int32, distinct where not 0; num_accepted_tokens [N] int32, at least 1 and at most M. Outputs: o [1, T, H, V] in q's
dtype, and state_pool. Computed in float32; scale defaults to K^-0.5.
Source: Kimi Linear 2025; slots and checkpoints as in speculative decoding of vLLM. Chosen: the meaning of columns
above. The longest sequence's length is read once, which synchronises.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, distinct_ids, pick_case, prefix_sums
from golden.linear_attention.delta_rule import l2norm, token_step

# sequence lengths, heads, channels, columns of ssm_state_indices
_SIZES = {
    "smoke": ((1, 3, 2), 2, 16, 3),
    "p0": ((1,) * 8, 4, 128, 1),
}
CASES = tuple(_SIZES)


def fused_recurrent_kda_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state_pool: torch.Tensor,
    cu_seqlens: torch.Tensor,
    ssm_state_indices: torch.Tensor,
    num_accepted_tokens: torch.Tensor,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [1, T, H, V] and state_pool, updated."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    slots = ssm_state_indices.long().reshape(len(cu_seqlens) - 1, -1)  # [N, M]
    starts, lengths = cu_seqlens[:-1].long(), cu_seqlens.diff().long()
    first = slots.gather(1, num_accepted_tokens.long()[:, None] - 1)[:, 0]
    state = state_pool[first].float().transpose(-2, -1)  # [N, H, K, V]
    packed = [x[0].float() for x in (l2norm(q), l2norm(k), v, g, beta)]
    out = torch.zeros(v.shape[1:], device=v.device)
    for t in range(int(lengths.max())):
        active = lengths > t
        rows = torch.where(active, starts + t, 0)
        step, new = token_step(*(x[rows] for x in packed), state, scale)
        state = torch.where(active[:, None, None, None], new, state)
        out[rows[active]] = step[active]
        target = slots[:, min(t, slots.shape[1] - 1)]
        written = active & (target != 0)
        state_pool[target[written]] = state[written].transpose(-2, -1).to(state_pool.dtype)
    return out[None].to(q.dtype), state_pool


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    lengths, heads, dim, columns = pick_case(_SIZES, case)
    draw = Draw(device)
    tokens, sequences = sum(lengths), len(lengths)
    slots = sequences * columns + 1
    indices = distinct_ids(1, sequences * columns, slots, device, low=1).reshape(sequences, columns)
    pool = draw.normal(slots, heads, dim, dim, dtype=torch.float32)
    pool[0] = 0
    gate = torch.nn.functional.logsigmoid(draw.normal(1, tokens, heads, dim, dtype=torch.float32))
    return (), {
        **{name: draw.normal(1, tokens, heads, dim) for name in ("q", "k", "v")},
        "g": gate.to(torch.bfloat16),
        "beta": draw.uniform(0.0, 1.0, 1, tokens, heads),
        "state_pool": pool,
        "cu_seqlens": prefix_sums(torch.tensor(lengths, device=device)),
        "ssm_state_indices": indices[:, 0] if columns == 1 else indices,
        "num_accepted_tokens": torch.randint(1, columns + 1, (sequences,), device=device).to(torch.int32),
    }
