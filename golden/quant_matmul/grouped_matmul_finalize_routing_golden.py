"""Grouped product of MXFP8 matrices, weighted and added to the tokens the rows belong to.

Formula: out starts as zeros with shared_weight * shared_input from row shared_offset on; then for group g and its rows
r:
    out[row_index[r]] += logit[r] * (dequantised(x1[r]) dequantised(x2_g)^T)

Shapes: x1 [M, K] float8_e4m3fn, pertoken_scale [M, K / 64, 2] float8_e8m0fnu; x2 [G, N, K] float8_e4m3fn, scale
[G, N, K / 64, 2] float8_e8m0fnu; group_list [G] int64, counts that sum to M; shared_input [S, N]; logit [M] float32;
row_index [M] int64, below output_rows, repeats add up; K a multiple of 64. Output [output_rows, N] float32, output_rows
being shared_offset + S unless it is given. Computed in float32; the group counts are read once, which synchronises.
Source: interface of the Ascend operator GroupedMatmulFinalizeRouting with MXFP8 operands.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul
from golden.inputs import Draw, group_counts, pick_case
from golden.quantise import dequantise_mx


class _Size(NamedTuple):
    rows: int
    inner: int
    groups: int
    columns: int
    tokens: int


_SIZES = {"smoke": _Size(12, 64, 4, 32, 5), "p0": _Size(768, 6144, 32, 4096, 128)}
CASES = tuple(_SIZES)


def grouped_matmul_finalize_routing_golden(
    x1: torch.Tensor,
    x2: torch.Tensor,
    scale: torch.Tensor,
    pertoken_scale: torch.Tensor,
    group_list: torch.Tensor,
    shared_input: torch.Tensor,
    logit: torch.Tensor,
    row_index: torch.Tensor,
    shared_weight: float = 1.0,
    shared_offset: int = 0,
    output_rows: int | None = None,
) -> torch.Tensor:
    """Return out [output_rows, N] float32."""
    rows = shared_offset + len(shared_input) if output_rows is None else output_rows
    out = torch.zeros(rows, x2.shape[1], device=x1.device)
    out[shared_offset : shared_offset + len(shared_input)] = shared_input.float() * shared_weight
    groups = dequantise_mx(x1, pertoken_scale).split(group_list.tolist())
    # One weight at a time: all of them in float32 would be four times the operator's input.
    products = [matmul(x, dequantise_mx(x2[g], scale[g]).t()) for g, x in enumerate(groups) if len(x)]
    return out.index_add_(0, row_index.long(), torch.cat(products) * logit[:, None])


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(_SIZES, case)
    draw = Draw(device, torch.float8_e4m3fn)
    pairs = size.inner // 64
    x2 = draw.zeros(size.groups, size.columns, size.inner)
    for weight in x2:  # one at a time, because values are drawn in float32
        weight.copy_(draw.normal(size.columns, size.inner))
    return (), {
        "x1": draw.normal(size.rows, size.inner),
        "x2": x2,
        "scale": draw.e8m0(-7, -4, size.groups, size.columns, pairs, 2),
        "pertoken_scale": draw.e8m0(-1, 2, size.rows, pairs, 2),
        "group_list": group_counts(size.rows, size.groups, device),
        "shared_input": draw.normal(size.tokens, size.columns, dtype=torch.bfloat16),
        "logit": draw.normal(size.rows, dtype=torch.float32),
        "row_index": draw.integers(0, size.tokens, size.rows, dtype=torch.int64),
    }
