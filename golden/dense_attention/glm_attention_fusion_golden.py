"""The attention of a GLM-4.5 layer for one new token per sequence, with more and longer sequences; writes its caches.

Formula: that of glm_attention. It is an operator of its own because its kernel fuses the whole chain.

Shapes: those of glm_attention.
Source: GLM-4.5.
"""

from __future__ import annotations

import torch

from golden.dense_attention.glm_attention_golden import Size, glm_attention_golden, make_inputs
from golden.inputs import pick_case

_SIZES = {
    "smoke": Size((60, 1, 33, 64), 128, 4, 1, 16, 8, blocks=16, block_size=16, width=4),
    "p0": Size((1024,) * 4, 5120, 12, 1, 128, 64, blocks=64, block_size=128, width=8),
}
CASES = tuple(_SIZES)


def glm_attention_fusion_golden(*args, **kwargs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return attention [B, N D], residual_out [B, H], k_cache, v_cache. The arguments are glm_attention's."""
    return glm_attention_golden(*args, **kwargs)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    return (), make_inputs(pick_case(_SIZES, case), device)
