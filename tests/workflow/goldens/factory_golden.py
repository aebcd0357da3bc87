"""A golden whose factory makes several cases, one of them twice."""

import torch


def factory_golden(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """x: (rows, 4) float32; ids: (n,) int64 < rows → (n, 4)."""
    return x[ids] + 1


def _make_inputs(device):
    ids = torch.randperm(16, device=device)
    x = torch.randn(16, 4, device=device)
    return [("good", (x, ids), {}), ("twice", (x, ids), {}), ("twice", (x, ids), {})]
