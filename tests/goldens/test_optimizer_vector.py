"""Optimiser steps and vector operators."""

from __future__ import annotations

import pytest
import torch
from support import close, inputs_of, load

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


def run(operator: str, **changes):
    _, inputs = inputs_of(operator, "smoke")
    inputs |= changes
    return inputs, load(operator)[1](**inputs)


def test_rms_prop_updates_its_arguments_element_by_element() -> None:
    _, before = inputs_of("apply_rms_prop_golden", "smoke")
    options = {"lr": 0.1, "rho": 0.7, "momentum": 0.5, "eps": 1e-3}
    i, (var, ms, mom) = run("apply_rms_prop_golden", **options)
    assert var is i["var"] and ms is i["ms"] and mom is i["mom"]
    for n in range(8 * 16):
        w, s, m, g = (before[name].flatten()[n].item() for name in ("var", "ms", "mom", "grad"))
        s = 0.7 * s + 0.3 * g * g
        m = 0.5 * m + 0.1 * g / (s + 1e-3) ** 0.5
        for actual, wanted in ((ms, s), (mom, m), (var, w - m)):
            assert actual.flatten()[n].item() == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_rms_prop_without_momentum_is_torchs_when_eps_does_not_matter() -> None:
    _, i = inputs_of("apply_rms_prop_golden", "smoke")
    i["mom"].zero_()
    theirs = torch.nn.Parameter(i["var"].clone())
    theirs.grad = i["grad"].clone()
    optimiser = torch.optim.RMSprop([theirs], lr=1e-3, alpha=0.9, eps=0.0)
    optimiser.state[theirs] = {"step": torch.tensor(0.0), "square_avg": i["ms"].clone()}
    optimiser.step()
    var, _, _ = load("apply_rms_prop_golden")[1](**i, eps=0.0)
    close(var, theirs.detach())


def test_batch_norm_sums_give_the_mean_and_variance_of_every_channel() -> None:
    i, (total, squares) = run("bn_training_reduce_golden")
    assert total.shape == squares.shape == (3,)
    for channel in range(3):
        values = i["x"][:, channel].double().flatten()
        mean = total[channel].double() / len(values)
        close(mean, values.mean())
        close(squares[channel].double() / len(values) - mean**2, values.var(unbiased=False), 1e-4)


def test_scatter_sub_accumulates_repeated_indices_in_place() -> None:
    _, before = inputs_of("scatter_nd_sub_golden", "smoke")
    i, target = run("scatter_nd_sub_golden")
    indices = i["indices"].flatten().tolist()
    assert target is i["target"] and len(set(indices)) < len(indices)
    wanted = before["target"].double()
    for n, row in enumerate(indices):
        wanted[row] -= i["updates"][n].double()
    close(target, wanted)


@pytest.mark.parametrize("ksize, stride", [(2, 2), (3, 2), (3, 1), (1, 1), (2, 3)])
def test_average_pooling_counts_the_padded_zeros(ksize: int, stride: int) -> None:
    i, out = run("avg_pool2d_golden", ksize=ksize, stride=stride)
    height, width = 5, 7
    rows, columns = -(-height // stride), -(-width // stride)
    top = max((rows - 1) * stride + ksize - height, 0) // 2
    left = max((columns - 1) * stride + ksize - width, 0) // 2
    assert out.shape == (2, 3, rows, columns)
    for y in range(rows):
        for x in range(columns):
            total = torch.zeros(2, 3, dtype=torch.float64)
            for a in range(y * stride - top, y * stride - top + ksize):
                for b in range(x * stride - left, x * stride - left + ksize):
                    if 0 <= a < height and 0 <= b < width:
                        total += i["x"][:, :, a, b].double()
            close(out[:, :, y, x], total / ksize**2)
