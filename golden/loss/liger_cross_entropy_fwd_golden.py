"""Cross entropy that overwrites the logits with its gradient (Liger kernel).

Formula, per row with target t != ignore_index, over V classes: x = logits, or softcap tanh(logits / softcap);
    lse = log sum exp(x);   loss = (1 - ls) (lse - x_t) + ls (lse - mean(x)) + z lse^2
    d loss / d x = softmax(x) (1 + 2 z lse) - (1 - ls) onehot(t) - ls / V, times 1 - (x / softcap)^2 with a softcap
with ls = label_smoothing and z = lse_square_scale. Ignored rows have loss and gradient 0. reduction "mean" divides both
by the number of other rows, "sum" adds the losses, "none" keeps one per row.

Shapes: logits [N, V], overwritten; target [N] int64, in 0 … V - 1 or ignore_index. Outputs: loss float32, 0-d, or [N]
for "none"; logits, holding the gradient in their dtype. Computed in float32.
Source: Liger kernel (Hsu et al. 2024); shape of LLaDA2 (391 tokens, 157184 classes). With no row left, the mean is 0.
"""

from __future__ import annotations

import torch

from golden.inputs import Draw, class_targets, pick_case

# rows, classes
_SIZES = {"smoke": (24, 100), "p0": (391, 157184)}
CASES = tuple(_SIZES)
IGNORED = -100


def liger_cross_entropy_fwd_golden(
    logits: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = IGNORED,
    label_smoothing: float = 0.0,
    lse_square_scale: float = 0.0,
    reduction: str = "mean",
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the loss and the logits, overwritten. ValueError for an unknown reduction."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f'reduction is {reduction!r}; it must be "mean", "sum" or "none".')
    x = logits.float()
    if softcap is not None:
        x = softcap * torch.tanh(x / softcap)
    kept = target != ignore_index
    index = torch.where(kept, target, 0)[:, None]
    lse = torch.logsumexp(x, dim=-1, keepdim=True)
    picked, mean = x.gather(-1, index), x.mean(-1, keepdim=True)
    loss = (1 - label_smoothing) * (lse - picked) + label_smoothing * (lse - mean) + lse_square_scale * lse.square()
    loss = torch.where(kept, loss[:, 0], 0.0)

    grad = torch.exp(x - lse) * (1 + 2 * lse_square_scale * lse) - label_smoothing / x.shape[-1]
    grad.scatter_add_(-1, index, torch.full_like(picked, label_smoothing - 1))
    if softcap is not None:
        grad = grad * (1 - (x / softcap).square())
    grad = torch.where(kept[:, None], grad, 0.0)
    if reduction == "mean":
        rows = kept.sum().clamp(min=1)
        loss, grad = loss.sum() / rows, grad / rows
    elif reduction == "sum":
        loss = loss.sum()
    logits.copy_(grad)
    return loss, logits


def _make_inputs(device: torch.device | str, case: str) -> tuple[tuple, dict]:
    """Every eighth row is ignored."""
    rows, classes = pick_case(_SIZES, case)
    return (), {
        "logits": Draw(device).normal(rows, classes),
        "target": class_targets(rows, classes, device, IGNORED),
    }
