"""Gradient of multi-head attention over packed sequences.

Formula, with l and m of flash_attention_mha: P = exp(q k^T * scale - m) / l;   dv = P^T do;
    dS = P * (do v^T - rowsum(do * o));   dq = dS k * scale;   dk = dS^T q * scale

Shapes: q, k, v, o, do [T, H, D]; l, m [T, H, 1] float32; actual_q, actual_kv [B] int32, plain lengths. o, l and m are
those of the forward pass on the same inputs. Outputs dq, dk, dv [T, H, D] in the dtypes of q, k, v. Computed in
float32; scale defaults to D^-0.5.
Source: Dao et al. 2022, appendix B.4.
"""

from __future__ import annotations

import torch

from golden.dense_attention import flash_attention_mha_golden as forward

CASES = forward.CASES


def flash_attention_mha_grad_golden(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    do: torch.Tensor,
    l: torch.Tensor,  # noqa: E741 - the name it has in the papers
    m: torch.Tensor,
    actual_q: torch.Tensor,
    actual_kv: torch.Tensor,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dq, dk, dv [T, H, D]."""
    if scale is None:
        scale = q.shape[-1] ** -0.5
    q_lengths, k_lengths = actual_q.tolist(), actual_kv.tolist()  # one read, which synchronises
    by_query = zip(*(x.split(q_lengths) for x in (q, o, do, l, m)), strict=True)
    by_key = zip(*(x.split(k_lengths) for x in (k, v)), strict=True)
    parts = [_one_sequence(*rows, *keys, scale) for rows, keys in zip(by_query, by_key, strict=True)]
    dq, dk, dv = (torch.cat(part) for part in zip(*parts, strict=True))
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def _one_sequence(
    q: torch.Tensor,
    o: torch.Tensor,
    do: torch.Tensor,
    l: torch.Tensor,  # noqa: E741
    m: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk, dv [L, H, D] of one sequence in float32."""
    query, out, d_out, total, maximum, keys, values = (x.float().transpose(0, 1) for x in (q, o, do, l, m, k, v))
    p = torch.exp(torch.matmul(query, keys.transpose(-2, -1)) * scale - maximum) / total
    dp = torch.matmul(d_out, values.transpose(-2, -1))
    ds = p * (dp - (d_out * out).sum(-1, keepdim=True)) * scale
    dq, dk = torch.matmul(ds, keys), torch.matmul(ds.transpose(-2, -1), query)
    dv = torch.matmul(p.transpose(-2, -1), d_out)
    return dq.transpose(0, 1), dk.transpose(0, 1), dv.transpose(0, 1)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The forward operator on its own inputs gives o, l and m."""
    _, inputs = forward._make_inputs(device, case)
    o, l, m = forward.flash_attention_mha_golden(**inputs)  # noqa: E741
    heads = inputs["num_heads"]
    lengths = inputs["cu_seqlens_q"].diff()
    packed = {name: x.unflatten(-1, (heads, -1)) for name, x in (*((n, inputs[n]) for n in "qkv"), ("o", o))}
    do = torch.randn(packed["o"].shape, device=device).to(o.dtype)
    return (), packed | {"do": do, "l": l, "m": m, "actual_q": lengths, "actual_kv": lengths.clone()}
