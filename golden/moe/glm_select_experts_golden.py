"""Grouped choice of experts from router logits (GLM-4.5).

Formula: s = sigmoid(logits);   c = s + bias;   each group is worth its largest c; c of all but the topk_group best
groups is set to 0; the top_k largest c win; weights = s of the winners, divided by their sum if `renormalize`.

Shapes: router_logits [T, E] float32; e_score_bias [E]; E a multiple of num_expert_group. Outputs: topk_weights [T,
top_k] float32 and topk_ids [T, top_k] int32, by falling c. Computed in float32.
Source: GLM-4.5 (one group, 8 of 160 experts). Chosen: groups that drop out count as 0, not minus infinity, so with
negative biases their experts may still win; a group is worth its best expert. The order of equal scores is not defined.
"""

from __future__ import annotations

import torch


def glm_select_experts_golden(
    router_logits: torch.Tensor,
    e_score_bias: torch.Tensor,
    top_k: int = 8,
    renormalize: bool = True,
    num_expert_group: int = 1,
    topk_group: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return topk_weights [T, top_k] float32 and topk_ids [T, top_k] int32."""
    scores = torch.sigmoid(router_logits.float())
    grouped = (scores + e_score_bias.float()).unflatten(-1, (num_expert_group, -1))
    best = grouped.amax(-1).topk(topk_group, dim=-1).indices
    kept = torch.zeros(grouped.shape[:-1], dtype=torch.bool, device=grouped.device).scatter(-1, best, True)
    ids = grouped.masked_fill(~kept[..., None], 0.0).flatten(-2).topk(top_k, dim=-1).indices
    weights = scores.gather(-1, ids)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, ids.to(torch.int32)
