"""Router of a mixture of experts: scores, grouped choice, weights.

Formula: s = softmax(x) (norm_type 0) or sigmoid(x) (1);   c = s + bias;   each of group_count groups is worth its
largest c (group_select_mode 0) or the sum of its two largest (1); the experts of the k_group best groups compete, and
the k largest c win; y = s of the winners, divided by (their sum + eps) if `renorm`, times routed_scaling_factor.

Shapes: x [T, E]; bias [E] or None; E a multiple of group_count. Outputs: y [T, k] in x's dtype, expert_idx [T, k]
int32, by falling c, and s [T, E] float32. Computed in float32.
Source: interface of the Ascend operator MoeGatingTopK; no reference was read. Chosen: renorm is on exactly for the
sigmoid unless it is given, as DeepSeek V3 does. The order of equal scores is not defined.
"""

from __future__ import annotations

import torch


def moe_gating_topk_golden(
    x: torch.Tensor,
    bias: torch.Tensor | None = None,
    k: int = 8,
    k_group: int = 1,
    group_count: int = 1,
    group_select_mode: int = 0,
    norm_type: int = 0,
    renorm: bool | None = None,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return y [T, k] in x's dtype, expert_idx [T, k] int32 and the scores [T, E] float32."""
    scores = torch.sigmoid(x.float()) if norm_type == 1 else torch.softmax(x.float(), dim=-1)
    choice = scores if bias is None else scores + bias.float()
    if group_count > 1:
        grouped = choice.unflatten(-1, (group_count, -1))
        worth = grouped.topk(2, dim=-1).values.sum(-1) if group_select_mode == 1 else grouped.amax(-1)
        best = worth.topk(k_group, dim=-1).indices
        kept = torch.zeros_like(worth, dtype=torch.bool).scatter(-1, best, True)
        choice = grouped.masked_fill(~kept[..., None], float("-inf")).flatten(-2)
    ids = choice.topk(k, dim=-1).indices
    y = scores.gather(-1, ids)
    if renorm if renorm is not None else norm_type == 1:
        y = y / (y.sum(-1, keepdim=True) + eps)
    return (y * routed_scaling_factor).to(x.dtype), ids.to(torch.int32), scores
