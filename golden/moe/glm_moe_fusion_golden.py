"""Router, choice of experts and shared expert of a GLM-4.5 layer in one operator.

Formula: glm_gate, glm_select_experts, glm_ffn_shared_expert_quant on the same tokens.

Shapes: hidden_states [T, H]; gate_weight [E, H] float32; e_score_bias [E]; w13 [H, 2 I] int8, w13_scale [2 I]; w2 [I,
H] int8, w2_scale [H]. Outputs: shared [T, H] in the dtype of hidden_states, topk_weights [T, top_k] float32, topk_ids
[T, top_k] int32. Computed in float32.
Source: GLM-4.5.
"""

from __future__ import annotations

import torch

from golden.moe.glm_ffn_shared_expert_quant_golden import glm_ffn_shared_expert_quant_golden
from golden.moe.glm_gate_golden import glm_gate_golden
from golden.moe.glm_select_experts_golden import glm_select_experts_golden


def glm_moe_fusion_golden(
    hidden_states: torch.Tensor,
    gate_weight: torch.Tensor,
    e_score_bias: torch.Tensor,
    w13: torch.Tensor,
    w13_scale: torch.Tensor,
    w2: torch.Tensor,
    w2_scale: torch.Tensor,
    top_k: int = 8,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return shared [T, H], topk_weights and topk_ids [T, top_k]."""
    logits = glm_gate_golden(hidden_states, gate_weight)
    weights, ids = glm_select_experts_golden(logits, e_score_bias, top_k)
    shared = glm_ffn_shared_expert_quant_golden(hidden_states, w13, w13_scale, w2, w2_scale)
    return shared, weights, ids
