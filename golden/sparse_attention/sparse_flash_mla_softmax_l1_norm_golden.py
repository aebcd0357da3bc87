"""How much attention each key gets on average over the heads: the target that trains a sparse indexer.

Formula, for query s of the Lq queries of a sequence with Lk keys:
    out[t, j] = 1 / G * sum_g exp(scale * q[t, g] . k_j - lse[t, g])
over the G heads; 0 for keys that are not selected or not visible. mask_mode 0 shows every key; mode 3 is causal over
compressed keys: key j stands for tokens j cmp_ratio … (j + 1) cmp_ratio - 1, cmp_residual tokens follow the last key,
and the query at token position p sees the keys below (p + 1) / cmp_ratio, p = Lk cmp_ratio + cmp_residual - Lq + s.

Shapes: q [T1, G, D]; k [T2, 1, D]; softmax_lse [1, T1, G] float32, the log-sum-exp of the same scores over the same
keys; sparse_indices [T1, 1, K] int32, positions within the sequence, -1 where unused, or None for all T2 keys;
cu_seqlens_q, cu_seqlens_k [B + 1] int32, cumulative from 0. Output [T1, 1, K] float32; every row sums to 1. Computed in
float32.
Source: DeepSeek V3.2 (2025), section on training the indexer: the heads' distributions are summed and L1-normalised.
Chosen: the meaning of cmp_ratio and cmp_residual above, because sources name them without a formula.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import owner
from golden.inputs import Draw, pick_case, prefix_sums, topk_ids


class _Size(NamedTuple):
    q_lengths: tuple[int, ...]
    k_lengths: tuple[int, ...]
    heads: int
    dim: int
    topk: int


_SIZES = {
    "smoke": _Size((5, 2), (24, 10), heads=4, dim=16, topk=12),
    "p0": _Size((64,), (1024,), heads=128, dim=512, topk=512),
}
CASES = tuple(_SIZES)


def sparse_flash_mla_softmax_l1_norm_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    softmax_lse: torch.Tensor,
    sparse_indices: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    scale: float = 512**-0.5,
    mask_mode: int = 3,
    cmp_ratio: int = 1,
    cmp_residual: int = 0,
) -> torch.Tensor:
    """Return the mean probabilities [T1, 1, K] float32."""
    scores = _scores(
        q, k, sparse_indices, cu_seqlens_q, cu_seqlens_k, scale, mask_mode, cmp_ratio, cmp_residual
    )  # [T1, G, K]
    return torch.exp(scores - softmax_lse[0, ..., None]).mean(dim=1, keepdim=True)


def _scores(q, k, sparse_indices, cu_seqlens_q, cu_seqlens_k, scale, mask_mode, cmp_ratio, cmp_residual):
    """Scaled scores [T1, G, K], -inf where a key is not selected or not visible."""
    q_ends, k_starts, k_ends = (ends.long() for ends in (cu_seqlens_q[1:], cu_seqlens_k[:-1], cu_seqlens_k[1:]))
    sequence = owner(q_ends, len(q))
    keys = k_ends[sequence] - k_starts[sequence]
    if sparse_indices is None:
        chosen = torch.arange(len(k), device=q.device).expand(len(q), -1)
    else:
        chosen = sparse_indices[:, 0].long()
    limit = keys
    if mask_mode == 3:
        after = q_ends[sequence] - 1 - torch.arange(len(q), device=q.device)
        limit = torch.minimum(keys, (keys * cmp_ratio + cmp_residual - after) // cmp_ratio)
    visible = (chosen >= 0) & (chosen < limit[:, None])
    rows = torch.where(visible, chosen, 0) + k_starts[sequence][:, None]
    scores = torch.einsum("tgd,tkd->tgk", q.float(), k[rows, 0].float()) * scale
    return scores.masked_fill(~visible[:, None], float("-inf"))


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The log-sum-exp comes from the same scores."""
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    q_lengths, k_lengths = (torch.tensor(n, device=device) for n in (size.q_lengths, size.k_lengths))
    seen = torch.cat([torch.arange(k - q + 1, k + 1, device=device) for q, k in zip(*size[:2], strict=True)])
    scale = size.dim**-0.5
    inputs = {
        "q": draw.normal(sum(size.q_lengths), size.heads, size.dim),
        "k": draw.normal(sum(size.k_lengths), 1, size.dim),
        "sparse_indices": topk_ids(seen, size.topk)[:, None],
        "cu_seqlens_q": prefix_sums(q_lengths),
        "cu_seqlens_k": prefix_sums(k_lengths),
        "scale": scale,
    }
    scores = _scores(**inputs, mask_mode=3, cmp_ratio=1, cmp_residual=0)
    return (), inputs | {"softmax_lse": torch.logsumexp(scores, dim=-1)[None]}
