"""The parts, one below the other, rows taken by index, scaled; bias and gate may be left out."""

import torch


def scaled_sum(
    parts: list[torch.Tensor],
    bias: torch.Tensor | None,
    index: torch.Tensor,
    gate: torch.Tensor | None = None,
    scale: float = 1.0,
    mode: str = "plain",
) -> torch.Tensor:
    rows = torch.cat(parts).index_select(0, index) * scale
    rows = rows if bias is None else rows + bias
    return rows if gate is None else rows.masked_fill(gate, 0)
