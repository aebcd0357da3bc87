"""Row-parallel product with its all-reduce, all ranks on one device.

Formula: y = sum over ranks r of x_r W_r.

Shapes: x, a list of one [M, K] per rank; weight, a list of one [K, N] per rank; output [M, N] in x's dtype, as every
rank would hold it. Products and sum in float32.
Source: tensor parallelism (Shoeybi et al. 2019). One device computes every rank's product and adds them up: nothing is
communicated, so a profile shows the arithmetic only.
"""

from __future__ import annotations

from functools import reduce

import torch

from golden.blocks import matmul
from golden.inputs import Draw, pick_case

# ranks, rows, inner size, columns
_SIZES = {"smoke": (2, 4, 32, 48), "p0": (4, 8, 1536, 5120)}
CASES = tuple(_SIZES)


def matmul_allreduce_golden(x: list[torch.Tensor], weight: list[torch.Tensor]) -> torch.Tensor:
    """Return y [M, N] in x's dtype."""
    return reduce(torch.add, (matmul(a, w) for a, w in zip(x, weight, strict=True))).to(x[0].dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    ranks, rows, inner, columns = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        "x": [draw.normal(rows, inner) for _ in range(ranks)],
        "weight": [draw.weight(inner, columns) for _ in range(ranks)],
    }
