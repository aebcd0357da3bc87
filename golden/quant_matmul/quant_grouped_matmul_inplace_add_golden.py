"""Products of MXFP8 matrices over groups along K, each added to an output of its own, in place: a weight gradient.

Formula, for group g and its rows k of a and w: y[g] += dequantised(a[k])^T dequantised(w[k]), where one power-of-two
scale covers 32 values along K.

Shapes: a [K, M], w [K, N] float8_e4m3fn; scale_a [K / 64 + G, M, 2], scale_w [K / 64 + G, N, 2] float8_e8m0fnu: group
g, whose first row is k0, has its scales from row k0 / 64 + g on, so that one row per group stays unused; group_list [G]
int64, counts that sum to K, multiples of 64; y_init [G, M, N] float32. Output: y_init, updated. Computed in float32;
the group counts are read once, which synchronises.
Source: interface of the Ascend operator QuantGroupedMatmulInplaceAdd with MXFP8 operands.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul
from golden.inputs import Draw, group_counts, pick_case
from golden.quantise import dequantise_mx_weight


class _Size(NamedTuple):
    inner: int
    rows: int
    columns: int
    groups: int


_SIZES = {"smoke": _Size(256, 16, 32, 4), "p0": _Size(6144, 768, 4096, 32)}
CASES = tuple(_SIZES)


def quant_grouped_matmul_inplace_add_golden(
    a: torch.Tensor,
    w: torch.Tensor,
    scale_a: torch.Tensor,
    scale_w: torch.Tensor,
    group_list: torch.Tensor,
    y_init: torch.Tensor,
) -> torch.Tensor:
    """Return y_init [G, M, N], updated."""
    start = 0
    for g, size in enumerate(group_list.tolist()):
        rows, scales = slice(start, start + size), slice(start // 64 + g, (start + size) // 64 + g)
        start += size
        if size:
            left = dequantise_mx_weight(a[rows], scale_a[scales])
            y_init[g] += matmul(left.t(), dequantise_mx_weight(w[rows], scale_w[scales]))
    return y_init


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """Equal groups in the P0 case; ragged ones, the first and the last empty, in the smoke case."""
    size = pick_case(_SIZES, case)
    draw = Draw(device, torch.float8_e4m3fn)
    rows = size.inner // 64 + size.groups
    counts = torch.full((size.groups,), size.inner // size.groups, device=device)
    if case == "smoke":
        counts = group_counts(size.inner, size.groups, device, multiple=64)
    return (), {
        "a": draw.normal(size.inner, size.rows),
        "w": draw.normal(size.inner, size.columns),
        "scale_a": draw.e8m0(-1, 2, rows, size.rows, 2),
        "scale_w": draw.e8m0(-1, 2, rows, size.columns, 2),
        "group_list": counts,
        "y_init": draw.normal(size.groups, size.rows, size.columns, dtype=torch.float32),
    }
