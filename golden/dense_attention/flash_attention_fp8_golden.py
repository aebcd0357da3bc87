"""Multi-head attention over packed sequences with HiFloat8 operands.

Formula, per sequence and head: S = q k^T * q_scale * k_scale * scale;   m = max S;   l = sum exp(S - m);
    P = HiFloat8(exp(S - m) * p_scale);   O = P (v * v_scale) / (l * p_scale)

Shapes: q, k, v [T, H, D]; q_scale, k_scale, v_scale [T, H, 1] float32, one per token and head; p_scale [1] float32;
cu_seqlens_q, cu_seqlens_k [B + 1] int32, cumulative from 0. Output [T, H, D] bfloat16. Computed in float32; scale
defaults to D^-0.5.
Source: FlashAttention with 8-bit operands (Shah et al. 2024), in HiFloat8. Chosen: torch has no HiFloat8, so q, k, v
are bfloat16 tensors with values on its grid: the arithmetic is the operator's, their bytes are twice as many.
"""

from __future__ import annotations

import torch

from golden.dense_attention.flash_attention_mha_golden import Size
from golden.inputs import Draw, pick_case, prefix_sums
from golden.quantise import round_hifloat8

_SIZES = {"smoke": Size((20, 1, 9), 2, 16), "p0": Size((320,) * 8, 8, 64)}
CASES = tuple(_SIZES)


def flash_attention_fp8_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    p_scale: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    scale: float | None = None,
) -> torch.Tensor:
    """Return O [T, H, D] bfloat16."""
    if scale is None:
        scale = q.shape[-1] ** -0.5
    q_lengths, k_lengths = cu_seqlens_q.diff().tolist(), cu_seqlens_k.diff().tolist()  # one read, which synchronises
    by_query = zip(*(x.split(q_lengths) for x in (q, q_scale)), strict=True)
    by_key = zip(*(x.split(k_lengths) for x in (k, v, k_scale, v_scale)), strict=True)
    parts = [_one_sequence(*rows, *keys, p_scale, scale) for rows, keys in zip(by_query, by_key, strict=True)]
    return torch.cat(parts).to(torch.bfloat16)


def _one_sequence(
    q: torch.Tensor,
    q_scale: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    p_scale: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """O [L, H, D] of one sequence in float32."""
    query, row_scale, keys, values, column_scale, value_scale = (
        x.float().transpose(0, 1) for x in (q, q_scale, k, v, k_scale, v_scale)
    )  # [H, L, D] and [H, L, 1]
    scores = torch.matmul(query, keys.transpose(-2, -1)) * row_scale * column_scale.transpose(-2, -1) * scale
    p = torch.exp(scores - scores.amax(-1, keepdim=True))
    out = torch.matmul(round_hifloat8(p * p_scale), values * value_scale) / (p.sum(-1, keepdim=True) * p_scale)
    return out.transpose(0, 1)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    shape = (sum(size.lengths), size.heads, size.dim)
    lengths = torch.tensor(size.lengths, device=device)
    return (), {
        **{name: round_hifloat8(draw.normal(*shape)).to(torch.bfloat16) for name in ("q", "k", "v")},
        **{f"{name}_scale": draw.uniform(0.5, 2.0, *shape[:2], 1) for name in ("q", "k", "v")},
        "p_scale": torch.full((1,), 16.0, device=device),
        "cu_seqlens_q": prefix_sums(lengths),
        "cu_seqlens_k": prefix_sums(lengths),
    }
