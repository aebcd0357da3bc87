"""Row-parallel product with its all-reduce, residual add and RMSNorm, all ranks on one device.

Formula: h = sum over ranks r of x_r W_r^T + residual;   y = RMSNorm(h) gamma + bias.

Shapes: x, a list of one [M, K] per rank; weight, a list of one [N, K] per rank; residual [M, N]; gamma, bias [N].
Outputs y and h [M, N] in x's dtype. Computed in float32.
Source: tensor parallelism (Shoeybi et al. 2019). One device computes every rank's product and adds them up: nothing is
communicated, so a profile shows the arithmetic only.
"""

from __future__ import annotations

from functools import reduce

import torch

from golden.blocks import matmul, rms_norm
from golden.inputs import Draw, pick_case

# ranks, rows, inner size, columns
_SIZES = {"smoke": (2, 4, 32, 48), "p0": (4, 8, 1536, 5120)}
CASES = tuple(_SIZES)


def matmul_allreduce_add_rmsnorm_golden(
    x: list[torch.Tensor],
    weight: list[torch.Tensor],
    residual: torch.Tensor,
    gamma: torch.Tensor,
    bias: torch.Tensor,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y and h [M, N] in x's dtype."""
    reduced = reduce(torch.add, (matmul(a, w.t()) for a, w in zip(x, weight, strict=True)))
    hidden = reduced + residual.float()
    normed = rms_norm(hidden, gamma, eps) + bias.float()
    return normed.to(x[0].dtype), hidden.to(x[0].dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    ranks, rows, inner, columns = pick_case(_SIZES, case)
    draw = Draw(device)
    return (), {
        "x": [draw.normal(rows, inner) for _ in range(ranks)],
        "weight": [draw.normal(columns, inner, scale=inner**-0.5) for _ in range(ranks)],
        "residual": draw.normal(rows, columns),
        "gamma": draw.ones(columns),
        "bias": draw.zeros(columns),
    }
