"""Grouped product of MXFP8 matrices: each group of rows has a weight of its own.

Formula, for group g and its rows: y = dequantised(a) dequantised(b_g), where one power-of-two scale covers 32 values
along K.

Shapes: a [M, K] float8_e4m3fn, scaled_a [M, K / 64, 2] float8_e8m0fnu; b [G, K, N] float8_e4m3fn, scaled_b [G, K / 64,
N, 2] float8_e8m0fnu; group_list, G counts that sum to M, some may be 0; K a multiple of 64. Output [M, N] float32.
Computed in float32.
Source: OCP MX specification 1.0; layout of scales in pairs as on Ascend 950.
Needs a device with torch's fp8 types (Ascend 950, CUDA, CPU).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from golden.blocks import matmul
from golden.inputs import Draw, pick_case
from golden.quantise import dequantise_mx, dequantise_mx_weight


class Size(NamedTuple):
    """Sizes of a case; `counts` are the rows of each group."""

    counts: tuple[int, ...]
    inner: int
    columns: int


SIZES = {"smoke": Size((0, 3, 5), 64, 32), "p0": Size((7, 9), 512, 7168)}
CASES = tuple(SIZES)


def gmm_mxfp8_golden(
    a: torch.Tensor, scaled_a: torch.Tensor, b: torch.Tensor, scaled_b: torch.Tensor, group_list: list[int]
) -> torch.Tensor:
    """Return y [M, N] float32."""
    groups = dequantise_mx(a, scaled_a).split(group_list)
    products = [matmul(x, dequantise_mx_weight(b[g], scaled_b[g])) for g, x in enumerate(groups) if len(x)]
    return torch.cat(products)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    size = pick_case(SIZES, case)
    draw = Draw(device, torch.float8_e4m3fn)
    rows, groups, pairs = sum(size.counts), len(size.counts), size.inner // 64
    return (), {
        "a": draw.normal(rows, size.inner),
        "scaled_a": draw.e8m0(-1, 2, rows, pairs, 2),
        "b": draw.normal(groups, size.inner, size.columns),
        "scaled_b": draw.e8m0(-1, 2, groups, pairs, size.columns, 2),
        "group_list": list(size.counts),
    }
