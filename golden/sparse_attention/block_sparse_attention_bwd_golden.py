"""Gradient of block-sparse grouped-query attention.

Formula, with the scores S of block_sparse_attention_fwd: P = exp(S - LSE);   dV = P^T dO;
    dS = P * (dO V^T - rowsum(dO * O));   dQ = dS K * scale;   dK = dS^T Q * scale
dK and dV add up over the query heads that share a kv head.

Shapes: query, out, dout [B, Hq, Sq, D]; key, value [B, Hkv, Skv, D]; block_sparse_mask as in the forward operator; lse
[B, Hq, Sq] float32; out and lse from the forward pass on the same inputs. Outputs dq, dk, dv, shaped and typed as
query, key, value. Computed in float32; scale defaults to D^-0.5.
Source: Dao et al. 2022, appendix B.4.
"""

from __future__ import annotations

import torch

from golden.inputs import pick_case
from golden.sparse_attention import block_sparse_attention_fwd_golden as forward

_SIZES = {
    "smoke": forward.Size(1, 4, 2, 50, 70, 16, 0.5, block_x=16, block_y=32),
    "p0": forward.Size(1, 4, 2, 512, 512, 128, 1.0),
}
CASES = tuple(_SIZES)


def block_sparse_attention_bwd_golden(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    block_sparse_mask: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    dout: torch.Tensor,
    block_x: int = 256,
    block_y: int = 512,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dq, dk, dv."""
    kv_heads, group = key.shape[1], query.shape[1] // key.shape[1]
    if scale is None:
        scale = query.shape[-1] ** -0.5
    scores = forward.masked_scores(query, key, block_sparse_mask, block_x, block_y, scale)
    p = torch.exp(scores - lse[..., None])
    d_out = dout.float()
    keys, values = (x.float().repeat_interleave(group, dim=1) for x in (key, value))
    dp = torch.matmul(d_out, values.transpose(-2, -1))
    ds = p * (dp - (d_out * out.float()).sum(-1, keepdim=True)) * scale
    dq = torch.matmul(ds, keys)
    dk, dv = torch.matmul(ds.transpose(-2, -1), query.float()), torch.matmul(p.transpose(-2, -1), d_out)
    dk, dv = (x.unflatten(1, (kv_heads, group)).sum(2) for x in (dk, dv))
    return dq.to(query.dtype), dk.to(key.dtype), dv.to(value.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The forward operator on its own inputs gives out and lse."""
    inputs = forward.make_inputs(pick_case(_SIZES, case), device)
    out, lse = forward.block_sparse_attention_fwd_golden(**inputs)
    return (), inputs | {"out": out, "lse": lse, "dout": torch.randn(out.shape, device=device).to(out.dtype)}
