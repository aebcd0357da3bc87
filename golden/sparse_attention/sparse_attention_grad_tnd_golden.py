"""Gradient of sparse MLA over packed sequences (layout TND).

Formula, with S, sm_max and sm_sum of sparse_attention_tnd and P = exp(S - sm_max) / sm_sum:
    dV = P^T dO;   dP = dO V^T;   dS = P * (dP - rowsum(dO * O)) * scale
    dq = dS K;     dK = dS^T q;   rows of dK and dV are added to the selected keys, so that a key chosen by several
    queries collects from all of them

Shapes: q_nope [T1, N, D], q_pe [T1, N, Dr]; k_nope, value [T2, 1, D], k_pe [T2, 1, Dr]; topk_indices [T1, 1, K] int32,
-1 where unused; d_out, out [T1, N, D]; sm_max, sm_sum [1, T1, N] float32; actual_q_len, actual_kv_len [B] int32,
cumulative ends. out, sm_max and sm_sum are those of the forward pass on the same inputs. Outputs in the dtypes of the
inputs: dq_nope [T1, N, D], dq_pe [T1, N, Dr], dk_nope [T2, 1, D], dk_pe [T2, 1, Dr], dv [T2, 1, D]. Computed in
float32.
Source: the gradient of the softmax (Dao et al. 2022, appendix B.4). In MLA the value is the key's latent part, so
dk_nope includes dv; dv alone is returned as well. P is not rounded here, as it is in the forward pass.
"""

from __future__ import annotations

import torch

from golden.sparse_attention import sparse_attention_tnd_golden as forward

CASES = forward.CASES


def sparse_attention_grad_tnd_golden(
    q_nope: torch.Tensor,
    k_nope: torch.Tensor,
    value: torch.Tensor,
    topk_indices: torch.Tensor,
    q_pe: torch.Tensor,
    k_pe: torch.Tensor,
    d_out: torch.Tensor,
    out: torch.Tensor,
    sm_max: torch.Tensor,
    sm_sum: torch.Tensor,
    actual_q_len: torch.Tensor,
    actual_kv_len: torch.Tensor,
    scale: float = 576**-0.5,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dq_nope, dq_pe, dk_nope (with dv), dk_pe, dv."""
    rows, visible = forward.select_packed(topk_indices[:, 0], actual_q_len, actual_kv_len)
    query = torch.cat([q_nope, q_pe], dim=-1).float()  # [T1, N, D + Dr]
    keys = torch.cat([k_nope[rows, 0], k_pe[rows, 0]], dim=-1).float()  # [T1, K, D + Dr]
    scores = torch.einsum("tnd,tkd->tnk", query, keys) * scale
    scores = scores.masked_fill(~visible[:, None], float("-inf"))
    p = torch.exp(scores - sm_max[0, ..., None]) / sm_sum[0, ..., None]

    d_out = d_out.float()
    dp = torch.einsum("tnd,tkd->tnk", d_out, value[rows, 0].float())
    ds = p * (dp - (d_out * out.float()).sum(-1, keepdim=True)) * scale
    dq = torch.einsum("tnk,tkd->tnd", ds, keys)
    dk = _add_to_keys(torch.einsum("tnk,tnd->tkd", ds, query), rows, len(k_nope))
    dv = _add_to_keys(torch.einsum("tnk,tnd->tkd", p, d_out), rows, len(k_nope))
    width = [q_nope.shape[-1], q_pe.shape[-1]]
    (dq_nope, dq_pe), (dk_nope, dk_pe) = dq.split(width, dim=-1), dk.split(width, dim=-1)
    return (
        dq_nope.to(q_nope.dtype),
        dq_pe.to(q_pe.dtype),
        (dk_nope + dv).to(k_nope.dtype),
        dk_pe.to(k_pe.dtype),
        dv.to(value.dtype),
    )


def _add_to_keys(parts: torch.Tensor, rows: torch.Tensor, keys: int) -> torch.Tensor:
    """[keys, 1, D]: parts [T1, K, D] added up by their key."""
    total = parts.new_zeros(keys, parts.shape[-1])
    return total.index_add_(0, rows.flatten(), parts.flatten(0, 1))[:, None]


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The forward pass on the forward operator's inputs gives out, sm_max and sm_sum."""
    _, inputs = forward._make_inputs(device, case)
    out, sm_max, sm_sum = forward.sparse_attention_tnd_golden(**inputs)
    latent = inputs.pop("compressed_kv")
    return (), inputs | {
        "k_nope": latent,
        "value": latent.clone(),
        "d_out": torch.randn(out.shape, device=device).to(out.dtype),
        "out": out,
        "sm_max": sm_max,
        "sm_sum": sm_sum,
    }
