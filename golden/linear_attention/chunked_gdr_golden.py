"""Gated delta rule over packed sequences, chunk by chunk (Qwen3-Next).

Formula: the recurrence of recurrent_gated_delta_rule in the chunked form of delta_rule.py, per sequence; each query/key
head serves Nv / Nqk neighbouring value heads.

Shapes: query, key [T, Nqk, K]; value [T, Nv, V]; beta [T, Nv], in 0 … 1; gate [T, Nv], log decay, <= 0; states
[B, Nv, K, V]; act_seq_len [B + 1] int32, cumulative from 0, sequences not empty. Outputs: o [T, Nv, V] and the final
states [B, Nv, K, V], float32, new tensors. q and k are L2-normalised first. Computed in float32.
Source: Yang et al. 2024, gated delta networks; shapes of Qwen3-Next. Chosen: scale 1, as the published formula has
none; models use K^-0.5. The kernel's helper masks are no inputs here. The sequences' lengths are read once, which
synchronises.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case, prefix_sums
from golden.linear_attention.delta_rule import delta_rule, l2norm, repeat_heads

# sequence lengths, query/key heads, value heads, channels, chunk
_SIZES = {"smoke": ((13, 8), 2, 4, 16, 8), "p0": ((1024, 1024), 2, 4, 128, 128)}
CASES = tuple(_SIZES)


def chunked_gdr_golden(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    beta: torch.Tensor,
    gate: torch.Tensor,
    states: torch.Tensor,
    act_seq_len: torch.Tensor,
    chunk: int = 128,
    scale: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return o [T, Nv, V] and the final states [B, Nv, K, V], float32."""
    heads = value.shape[1]
    q, k = (repeat_heads(l2norm(x)[None], heads) for x in (query, key))
    lengths = act_seq_len.diff().tolist()
    packed = (x.split(lengths, dim=1) for x in (q, k, value[None], gate[None, ..., None], beta[None]))
    results = [
        delta_rule(*sequence, state, chunk, scale) for *sequence, state in zip(*packed, states.split(1), strict=True)
    ]
    outputs, final = zip(*results, strict=True)
    return torch.cat(outputs, dim=1)[0], torch.cat(final)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    lengths, qk_heads, heads, dim, chunk = pick_case(_SIZES, case)
    draw = Draw(device, torch.float32)
    tokens = sum(lengths)
    return (), {
        "query": draw.normal(tokens, qk_heads, dim),
        "key": draw.normal(tokens, qk_heads, dim),
        "value": draw.normal(tokens, heads, dim),
        "beta": draw.uniform(0.0, 1.0, tokens, heads),
        "gate": draw.uniform(-1.0, 0.0, tokens, heads),
        "states": draw.normal(len(lengths), heads, dim, dim),
        "act_seq_len": prefix_sums(torch.tensor(lengths, device=device)),
        "chunk": chunk,
    }
