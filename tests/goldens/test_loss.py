"""Cross entropy against torch's own operator and its autograd, in float64."""

from __future__ import annotations

import pytest
import torch
from support import close, inputs_of, load

forward, backward = (load(f"liger_cross_entropy_{way}_golden")[1] for way in ("fwd", "bwd"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(43)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "smoothing, z, softcap", [(0.0, 0.0, None), (0.1, 0.0, None), (0.0, 1e-2, None), (0.2, 1e-2, 3.0)]
)
def test_loss_and_gradient_are_torchs(reduction: str, smoothing: float, z: float, softcap: float | None) -> None:
    _, i = inputs_of("liger_cross_entropy_fwd_golden", "smoke")
    leaf = (i["logits"] * 3).double().requires_grad_()
    i["logits"] = i["logits"] * 3
    capped = leaf if softcap is None else softcap * torch.tanh(leaf / softcap)
    options = {"ignore_index": -100, "label_smoothing": smoothing}
    each = torch.nn.functional.cross_entropy(capped, i["target"], reduction="none", **options)
    kept = i["target"] != -100
    each = each + z * torch.logsumexp(capped, -1) ** 2 * kept
    wanted = each.sum() / kept.sum() if reduction == "mean" else each.sum() if reduction == "sum" else each
    wanted.sum().backward()

    loss, grad = forward(**i, label_smoothing=smoothing, lse_square_scale=z, softcap=softcap, reduction=reduction)
    assert grad is i["logits"] and grad.dtype == torch.bfloat16 and loss.dtype == torch.float32
    close(loss, wanted.detach(), 1e-4)
    close(grad / leaf.grad.abs().max(), leaf.grad / leaf.grad.abs().max(), 1e-2)
    assert kept.sum() == 21 and (grad[~kept] == 0).all()


def test_rows_that_are_all_ignored_give_zero() -> None:
    logits = torch.randn(3, 5)
    loss, grad = forward(logits, torch.full((3,), -100))
    assert loss.item() == 0 and (grad == 0).all()


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]])
    loss, grad = forward(logits.clone(), torch.tensor([1]))
    assert loss.item() == pytest.approx(2e4) and grad.tolist() == [[1.0, -1.0, 0.0]]


def test_an_unknown_reduction_is_refused() -> None:
    with pytest.raises(ValueError, match='"mean", "sum" or "none"'):
        forward(torch.randn(2, 3), torch.tensor([0, 1]), reduction="max")


def test_backward_scales_the_saved_gradient() -> None:
    _, i = inputs_of("liger_cross_entropy_bwd_golden", "smoke")
    assert i["grad_output"].shape == () and i["grad_saved"].abs().max() > 0
    out = backward(torch.tensor(-2.0), i["grad_saved"])
    assert out.dtype == torch.bfloat16 and torch.equal(out, i["grad_saved"] * -2)
