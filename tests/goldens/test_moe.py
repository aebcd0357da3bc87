"""Routers, expert feed-forward blocks and their collective forms."""

from __future__ import annotations

import math

import pytest
import torch
from support import close

from golden.moe.llada2_gate_select_golden import llada2_gate_select_golden


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(19)


def select(logits: list[float], bias: list[float], top_k: int, n_group: int, topk_group: int) -> list[int]:
    """The chosen experts of one token by sorting Python numbers, best first."""
    choice = [1 / (1 + math.exp(-z)) + b for z, b in zip(logits, bias, strict=True)]
    size = len(choice) // n_group
    groups = sorted(range(n_group), key=lambda g: -max(choice[g * size : (g + 1) * size]))[:topk_group]
    members = [e for g in groups for e in range(g * size, (g + 1) * size)]
    return sorted(members, key=lambda e: -choice[e])[:top_k]


@pytest.mark.parametrize("n_group, topk_group, top_k", [(8, 4, 8), (1, 1, 3), (4, 1, 2), (8, 8, 8)])
def test_grouped_gate_agrees_with_sorting(n_group: int, topk_group: int, top_k: int) -> None:
    x, weight, bias = torch.randn(9, 24), torch.randn(32, 24) * 0.2, torch.rand(32)
    weights, ids = llada2_gate_select_golden(x, weight, bias, top_k, n_group, topk_group, scaling=2.5)
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32) and weights.shape == ids.shape == (9, top_k)
    logits = x.double() @ weight.double().t()
    for t in range(9):
        expected = select(logits[t].tolist(), bias.tolist(), top_k, n_group, topk_group)
        assert ids[t].tolist() == expected
        scores = [1 / (1 + math.exp(-float(logits[t, e]))) for e in expected]
        close(weights[t], torch.tensor([2.5 * s / sum(scores) for s in scores]))


def test_the_gates_bias_moves_the_choice_but_not_the_weight() -> None:
    x, weight = torch.ones(1, 1), torch.zeros(4, 1)
    bias = torch.tensor([0.0, 5.0, 0.0, 9.0])
    weights, ids = llada2_gate_select_golden(x, weight, bias, top_k=2, n_group=2, topk_group=2, scaling=1.0)
    assert ids.tolist() == [[3, 1]] and weights.tolist() == [[0.5, 0.5]]


def test_the_gate_survives_scores_of_zero() -> None:
    weights, _ = llada2_gate_select_golden(torch.full((1, 1), -1e4), torch.ones(4, 1), torch.zeros(4), 2, 2, 1)
    assert torch.isfinite(weights).all()
