"""Sparse MLA over packed sequences (layout TND), with the softmax statistics its backward needs.

Formula, for query s of the Lq queries of a sequence with Lk keys, over its first min(Lk - Lq + 1 + s, K) selections:
    S = (q_nope . kv + q_pe . k_pe) * scale;   P = softmax(S), rounded to q_nope's dtype;   O = P kv
    sm_max = max S,   sm_sum = sum exp(S - sm_max)

Shapes: q_nope [T1, N, D], q_pe [T1, N, Dr]; compressed_kv [T2, 1, D], k_pe [T2, 1, Dr]; topk_indices [T1, 1, K] int32,
positions within the sequence's own keys, distinct, -1 where unused; actual_q_len, actual_kv_len [B] int32, cumulative
ends without the leading 0, the last being T1 and T2; Lq <= Lk. Outputs: O [T1, N, D] in q_nope's dtype, sm_max and
sm_sum [1, T1, N] float32. Computed in float32.
Source: DeepSeek V3.2 (2025), sparse attention; interface of the Ascend operator in layout TND.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import before, owner
from golden.inputs import Draw, pick_case, prefix_sums, topk_ids


class _Size(NamedTuple):
    q_lengths: tuple[int, ...]
    kv_lengths: tuple[int, ...]
    heads: int
    dim: int
    rope: int
    topk: int


_SIZES = {
    "smoke": _Size((3, 1), (20, 9), heads=4, dim=32, rope=8, topk=12),
    "p0": _Size((1, 1), (2048, 2048), heads=2, dim=512, rope=64, topk=2048),
}
CASES = tuple(_SIZES)


def sparse_attention_tnd_golden(
    q_nope: torch.Tensor,
    compressed_kv: torch.Tensor,
    topk_indices: torch.Tensor,
    q_pe: torch.Tensor,
    k_pe: torch.Tensor,
    actual_q_len: torch.Tensor,
    actual_kv_len: torch.Tensor,
    scale: float = 576**-0.5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return O [T1, N, D] in q_nope's dtype, sm_max and sm_sum [1, T1, N] float32."""
    rows, visible = select_packed(topk_indices[:, 0], actual_q_len, actual_kv_len)
    latent = compressed_kv[rows, 0].float()  # [T1, K, D]
    scores = torch.einsum("tnd,tkd->tnk", q_nope.float(), latent)
    scores = (scores + torch.einsum("tnd,tkd->tnk", q_pe.float(), k_pe[rows, 0].float())) * scale
    scores = scores.masked_fill(~visible[:, None], float("-inf"))
    maximum = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - maximum)
    total = weights.sum(-1, keepdim=True)
    probabilities = (weights / total).to(q_nope.dtype)
    out = torch.einsum("tnk,tkd->tnd", probabilities.float(), latent)
    return out.to(q_nope.dtype), maximum.squeeze(-1)[None], total.squeeze(-1)[None]


def select_packed(topk: torch.Tensor, q_ends: torch.Tensor, kv_ends: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of the packed keys [T1, K], and which of them count."""
    sequence = owner(q_ends, len(topk))
    q_end, kv_end = q_ends.long()[sequence], kv_ends.long()[sequence]
    kv_start = torch.cat([kv_ends.new_zeros(1), kv_ends[:-1]]).long()[sequence]
    # Keys behind the query are as many as queries behind it: Lk - Lq + 1 + s = Lk - (queries after this one).
    seen = kv_end - kv_start - (q_end - 1 - torch.arange(len(topk), device=topk.device))
    visible = before(seen, topk.shape[-1]) & (topk >= 0)
    return topk.long().clamp(min=0) + kv_start[:, None], visible


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    q_lengths, kv_lengths = (torch.tensor(n, device=device) for n in (size.q_lengths, size.kv_lengths))
    tokens, keys = sum(size.q_lengths), sum(size.kv_lengths)
    seen = torch.cat([torch.arange(k - q + 1, k + 1, device=device) for q, k in zip(*size[:2], strict=True)])
    return (), {
        "q_nope": draw.normal(tokens, size.heads, size.dim),
        "compressed_kv": draw.normal(keys, 1, size.dim),
        "topk_indices": topk_ids(seen, size.topk)[:, None],
        "q_pe": draw.normal(tokens, size.heads, size.rope),
        "k_pe": draw.normal(keys, 1, size.rope),
        "actual_q_len": prefix_sums(q_lengths, leading_zero=False),
        "actual_kv_len": prefix_sums(kv_lengths, leading_zero=False),
    }
