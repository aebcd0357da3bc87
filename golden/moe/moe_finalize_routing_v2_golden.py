"""Sum of what the experts returned for each token, from rows that are ordered by expert.

Formula: out[i] = x1[i] + x2[i] + sum over k of scales[i, k] * (expanded_x[r] + bias[expert_idx[i, k]]), where r is
expanded_row_idx at k rows + i (drop_pad_mode 0 and 1) or at i K + k (2 and 3); a term with r = -1 is left out.

Shapes: expanded_x [n, H], or [E, capacity, H] when padded; expanded_row_idx [rows K] int32, in -1 … n - 1; x1, x2
[rows, H] or None; bias [E, H] or None; scales [rows, K] float32 or None for ones; expert_idx [rows, K] int32, needed
with a bias. Output [rows, H] in the dtype of expanded_x. Computed in float32, one expert choice k after the other.
Source: interface of the Ascend operator MoeFinalizeRoutingV2. Chosen: a dropped row takes its bias with it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.inputs import Draw, permutation, pick_case


class _Size(NamedTuple):
    rows: int
    choices: int
    hidden: int
    experts: int


_SIZES = {"smoke": _Size(6, 2, 32, 4), "p0": _Size(4096, 1, 7168, 8)}
CASES = tuple(_SIZES)


def moe_finalize_routing_v2_golden(
    expanded_x: torch.Tensor,
    expanded_row_idx: torch.Tensor,
    x1: torch.Tensor | None = None,
    x2: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
    expert_idx: torch.Tensor | None = None,
    drop_pad_mode: int = 0,
) -> torch.Tensor:
    """Return out [rows, H]. ValueError when nothing tells the number of rows."""
    known = [x for x in (x1, x2, scales, expert_idx) if x is not None]
    if not known:
        raise ValueError("One of x1, x2, scales, expert_idx is needed to tell the number of rows.")
    rows = len(known[0])
    source = expanded_x.flatten(0, -2)
    by_choice = expanded_row_idx.long().reshape(-1, rows)
    if drop_pad_mode >= 2:
        by_choice = expanded_row_idx.long().reshape(rows, -1).t()
    out = torch.zeros(rows, source.shape[-1], device=source.device)
    for x in (x1, x2):
        if x is not None:
            out += x.float()
    for k, row in enumerate(by_choice):
        term = source[row.clamp(min=0)].float()
        if bias is not None:
            term = term + bias[expert_idx[:, k].long()].float()
        if scales is not None:
            term = term * scales[:, k, None].float()
        out += torch.where(row[:, None] >= 0, term, 0.0)
    return out.to(expanded_x.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device)
    expanded = size.rows * size.choices
    return (), {
        "expanded_x": draw.normal(expanded, size.hidden),
        "expanded_row_idx": permutation(expanded, device),
        "x1": draw.normal(size.rows, size.hidden),
        "x2": draw.normal(size.rows, size.hidden),
        "bias": draw.normal(size.experts, size.hidden),
        "scales": draw.uniform(0.0, 1.0, size.rows, size.choices),
        "expert_idx": draw.integers(0, size.experts, size.rows, size.choices, dtype=torch.int32),
    }
