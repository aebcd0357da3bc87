"""Subtraction of rows at indices, in place.

Formula: target[indices[n]] -= updates[n]; repeated indices accumulate.

Shapes: target [rows, D]; indices [n, 1] int32, in 0 … rows - 1; updates [n, D]. Output: target, updated. Computed in
the target's dtype.
Source: TensorFlow's ScatterNdSub. The order in which repeats are added is not defined on an accelerator.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, pick_case

# rows, channels, updates
_SIZES = {"smoke": (20, 8, 32), "p0": (10000, 16, 256)}
CASES = tuple(_SIZES)


def scatter_nd_sub_golden(target: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """Return target [rows, D], updated."""
    return target.index_add_(0, indices[:, 0].long(), updates, alpha=-1)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    rows, dim, count = pick_case(_SIZES, case)
    draw = Draw(device, torch.float32)
    return (), {
        "target": draw.normal(rows, dim),
        "indices": draw.integers(0, rows, count, 1, dtype=torch.int32),
        "updates": draw.normal(count, dim),
    }
