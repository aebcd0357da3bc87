"""Gradient of plain attention from its saved output and softmax statistics.

Formula: P = exp(q k^T * scale_value - softmax_max) / softmax_sum;   dv = P^T dy;
    dS = P * (dy v^T - rowsum(dy * attention_in));   dq = dS k * scale_value;   dk = dS^T q * scale_value

Shapes: query, key, value, dy, attention_in [B, N, S, D]; softmax_max, softmax_sum [B, N, S, 1] float32; attention_in
and the statistics are those of the forward pass on the same inputs. Outputs dq, dk, dv [B, N, S, D] in the dtypes of
query, key, value. Computed in float32; scale_value defaults to D^-0.5.
Source: Dao et al. 2022, appendix B.4; interface of the Ascend operator FlashAttentionScoreGrad, without mask, bias and
dropout.
"""

from __future__ import annotations

import torch

from golden.dense_attention.flash_attention_score_golden import flash_attention_score_golden
from golden.inputs import Draw, pick_case

# batch, heads, tokens, head dim
_SIZES = {"smoke": (1, 2, 16, 16), "p0": (2, 8, 64, 64)}
CASES = tuple(_SIZES)


def flash_attention_score_grad_golden(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dy: torch.Tensor,
    attention_in: torch.Tensor,
    softmax_max: torch.Tensor,
    softmax_sum: torch.Tensor,
    scale_value: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dq, dk, dv [B, N, S, D]."""
    q, k, v, d_out = (x.float() for x in (query, key, value, dy))
    scale = query.shape[-1] ** -0.5 if scale_value is None else scale_value
    p = torch.exp(torch.matmul(q, k.transpose(-2, -1)) * scale - softmax_max) / softmax_sum
    dp = torch.matmul(d_out, v.transpose(-2, -1))
    ds = p * (dp - (d_out * attention_in.float()).sum(-1, keepdim=True)) * scale
    dq, dk = torch.matmul(ds, k), torch.matmul(ds.transpose(-2, -1), q)
    dv = torch.matmul(p.transpose(-2, -1), d_out)
    return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The forward operator without mask, bias and dropout gives the output and the statistics."""
    shape = pick_case(_SIZES, case)
    draw = Draw(device)
    inputs = {name: draw.normal(*shape) for name in ("query", "key", "value")}
    square = draw.zeros(shape[2], shape[2])
    out, maximum, total = flash_attention_score_golden(
        **inputs, atten_mask=square, pse=square, drop_mask=torch.ones_like(square)
    )
    return (), inputs | {
        "dy": draw.normal(*shape),
        "attention_in": out,
        "softmax_max": maximum,
        "softmax_sum": total,
    }
