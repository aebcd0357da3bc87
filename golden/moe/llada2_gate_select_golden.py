"""Router of a mixture of experts with groups: gate projection, biased grouped selection, renormalised weights (LLaDA2).

Formula: s = sigmoid(x W^T); c = s + bias; each of n_group groups is worth its largest c; the experts of the topk_group
best groups compete, and the top_k largest c win; weights = s of the winners / (their sum + 1e-20) * scaling.

Shapes: hidden_states [T, H]; weight [E, H] float32; bias [E] float32; E a multiple of n_group. Outputs: weights [T,
top_k] float32 and ids [T, top_k] int32, by falling c. Computed in float32.
Source: LLaDA2 MoE (256 experts, 8 groups, 4 kept, 8 experts, factor 2.5).
Chosen: a group is worth its best expert; DeepSeek V3 adds its two best. The bias steers the choice only, not the
weight. The order of equal scores is not defined.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul


def llada2_gate_select_golden(
    hidden_states: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    top_k: int = 8,
    n_group: int = 8,
    topk_group: int = 4,
    scaling: float = 2.5,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weights [T, top_k] float32 and expert ids [T, top_k] int32."""
    scores = torch.sigmoid(matmul(hidden_states, weight.t()))
    grouped = (scores + bias.float()).unflatten(-1, (n_group, -1))
    best_groups = grouped.amax(-1).topk(topk_group, dim=-1).indices
    kept = torch.zeros(grouped.shape[:-1], dtype=torch.bool, device=grouped.device).scatter(-1, best_groups, True)
    candidates = grouped.masked_fill(~kept[..., None], float("-inf")).flatten(-2)
    ids = candidates.topk(top_k, dim=-1).indices
    weights = scores.gather(-1, ids)
    return weights / (weights.sum(-1, keepdim=True) + 1e-20) * scaling, ids.to(torch.int32)
