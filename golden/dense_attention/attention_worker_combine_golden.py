"""Sum of what the experts returned for a token, the shared expert's result last and unscaled.

Formula: y[b] = sum over k < K of token_data[b, k] * expert_scales[b, k] + token_data[b, K].

Shapes: token_data [B, K + 1, H]; expert_scales [B, K] float32; output [B, H] in the dtype of token_data. Computed in
float32.
Source: interface of the Ascend operator AttentionWorkerCombine.
"""

from __future__ import annotations

import torch


def attention_worker_combine_golden(token_data: torch.Tensor, expert_scales: torch.Tensor) -> torch.Tensor:
    """Return y [B, H] in the dtype of token_data."""
    routed, shared = token_data[:, :-1].float(), token_data[:, -1].float()
    return ((routed * expert_scales.float()[..., None]).sum(1) + shared).to(token_data.dtype)
