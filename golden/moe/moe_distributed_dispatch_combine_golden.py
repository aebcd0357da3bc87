"""Dispatch of tokens to the ranks of their experts and the weighted way back, all ranks on one device.

Formula: the T topk copies are ordered by expert, and within an expert by token; expert e lives on rank e / (experts /
world). info names where a copy came from: (source rank, token, k), T / world tokens per rank. The experts leave the
copies as they are, so combine gives out[t] = sum over k of expert_scales[t, k] * x[t].

Shapes: x [T, H]; expert_ids [T, topk] int32, distinct per token, below experts; expert_scales [T, topk] float32; T a
multiple of world, experts too. Outputs: dispatched [T topk, H] in x's dtype, info [T topk, 3] int32, expert_counts
[experts] int32, combined [T, H] in x's dtype. Combined in float32.
Source: expert parallelism (Lepikhin et al. 2020). Nothing is communicated, so a profile shows the data movement of one
device only. Chosen: identity experts, because the operator itself has none.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.inputs import Draw, distinct_ids, pick_case


class _Size(NamedTuple):
    tokens: int
    hidden: int
    experts: int
    topk: int
    world: int


_SIZES = {"smoke": _Size(8, 32, 16, 3, 4), "p0": _Size(8, 5120, 160, 8, 4)}
CASES = tuple(_SIZES)


def moe_distributed_dispatch_combine_golden(
    x: torch.Tensor, expert_ids: torch.Tensor, expert_scales: torch.Tensor, experts: int = 160, world: int = 4
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return dispatched [T topk, H], info [T topk, 3], expert_counts [experts] and combined [T, H]."""
    tokens, topk = expert_ids.shape
    flat = expert_ids.flatten().long()
    order = torch.argsort(flat, stable=True)  # experts of a rank are neighbours, so this orders by rank as well
    token, choice = order // topk, order % topk
    dispatched = x[token]
    info = torch.stack([token // (tokens // world), token, choice], dim=-1).to(torch.int32)
    counts = torch.bincount(flat, minlength=experts).to(torch.int32)

    back = torch.empty_like(order).scatter(0, order, torch.arange(len(order), device=order.device))
    returned = dispatched[back].unflatten(0, (tokens, topk)).float()
    combined = (returned * expert_scales.float()[..., None]).sum(1)
    return dispatched, info, counts, combined.to(x.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        "x": draw.normal(size.tokens, size.hidden),
        "expert_ids": distinct_ids(size.tokens, size.topk, size.experts, device),
        "expert_scales": draw.uniform(0.0, 1.0, size.tokens, size.topk),
        "experts": size.experts,
        "world": size.world,
    }
