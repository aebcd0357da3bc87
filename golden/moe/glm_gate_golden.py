"""Router logits of a mixture of experts (GLM-4.5).

Formula: logits = x W^T.

Shapes: hidden_states [T, H]; weight [E, H] float32; output [T, E] float32. Computed in float32.
Source: GLM-4.5 (160 experts, hidden size 5120).
"""

from __future__ import annotations

import torch

from golden.blocks import matmul


def glm_gate_golden(hidden_states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return logits [T, E] float32."""
    return matmul(hidden_states, weight.t())
