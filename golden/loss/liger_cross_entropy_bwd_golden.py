"""Second half of the backward pass of Liger's cross entropy: the saved gradient times the incoming one.

Formula: d logits = grad_output * grad_saved.

Shapes: grad_output float32, 0-d; grad_saved [N, V], what liger_cross_entropy_fwd left in its logits; output [N, V] in
its dtype. Computed in float32.
Source: Liger kernel (Hsu et al. 2024).
"""

from __future__ import annotations

import torch

from golden.loss import liger_cross_entropy_fwd_golden as forward

CASES = forward.CASES


def liger_cross_entropy_bwd_golden(grad_output: torch.Tensor, grad_saved: torch.Tensor) -> torch.Tensor:
    """Return d logits [N, V] in the dtype of grad_saved."""
    return (grad_saved.float() * grad_output.float()).to(grad_saved.dtype)


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """The forward operator on its own inputs gives the saved gradient."""
    _, inputs = forward._make_inputs(device, case)
    _, saved = forward.liger_cross_entropy_fwd_golden(**inputs)
    return (), {"grad_output": torch.ones((), device=device), "grad_saved": saved}
