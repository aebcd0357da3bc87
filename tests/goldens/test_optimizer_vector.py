"""Optimiser steps and vector operators."""

from __future__ import annotations

import pytest
import torch
from support import close

from golden.optimizer_vector.apply_adam_w_v2_golden import apply_adam_w_v2_golden


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(13)


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_w_agrees_with_torchs_optimiser(step: int, decay: float) -> None:
    w, grad, m, v = torch.randn(5, 9), torch.randn(5, 9), torch.randn(5, 9), torch.rand(5, 9)
    theirs = torch.nn.Parameter(w.clone())
    theirs.grad = grad.clone()
    optimiser = torch.optim.AdamW([theirs], lr=0.03, betas=(0.8, 0.95), eps=1e-6, weight_decay=decay)
    optimiser.state[theirs] = {"step": torch.tensor(step - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimiser.step()

    out = apply_adam_w_v2_golden(w, grad, m, v, lr=0.03, beta1=0.8, beta2=0.95, weight_decay=decay, eps=1e-6, step=step)
    assert all(a is b for a, b in zip(out, (w, m, v), strict=True)), "the arguments themselves are updated"
    close(w, theirs.detach(), 1e-6)
    close(m, optimiser.state[theirs]["exp_avg"], 1e-6)
    close(v, optimiser.state[theirs]["exp_avg_sq"], 1e-6)


def test_adam_w_rounds_a_bfloat16_weight_once_and_leaves_the_gradient_alone() -> None:
    w, grad = torch.randn(64).bfloat16(), torch.randn(64).bfloat16()
    wide, before = w.float(), grad.clone()
    apply_adam_w_v2_golden(wide, grad, torch.zeros(64), torch.zeros(64), lr=0.1)
    apply_adam_w_v2_golden(w, grad, torch.zeros(64), torch.zeros(64), lr=0.1)
    assert torch.equal(w, wide.bfloat16()) and torch.equal(grad, before)


def test_adam_w_without_gradient_and_history_only_decays() -> None:
    w = torch.full((3,), 2.0)
    apply_adam_w_v2_golden(w, torch.zeros(3), torch.zeros(3), torch.zeros(3), lr=0.5, weight_decay=0.5)
    assert w.tolist() == [1.5] * 3
