"""Routers, expert feed-forward blocks and their collective forms."""

from __future__ import annotations

import math

import pytest
import torch
from oracles import int8, rms
from support import close, inputs_of, load

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


BF16 = 2e-2


def run(operator: str, **changes):
    _, inputs = inputs_of(operator, "smoke")
    inputs |= changes
    return inputs, load(operator)[1](**inputs)


def silu(x: torch.Tensor) -> torch.Tensor:
    return x * (1 + torch.tanh(x / 2)) / 2


def test_glm_gate_is_a_product_with_the_transposed_weight() -> None:
    i, logits = run("glm_gate_golden")
    for t in range(8):
        for e in range(16):
            close(logits[t, e], (i["hidden_states"][t].double() * i["weight"][e].double()).sum(), 1e-4)
    assert logits.dtype == torch.float32


@pytest.mark.parametrize("groups, kept, renormalise", [(1, 1, True), (4, 2, True), (8, 3, False)])
def test_glm_selection_agrees_with_sorting(groups: int, kept: int, renormalise: bool) -> None:
    options = {"num_expert_group": groups, "topk_group": kept, "renormalize": renormalise}
    i, (weights, ids) = run("glm_select_experts_golden", **options)
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32)
    for t in range(8):
        logits, bias = i["router_logits"][t].tolist(), i["e_score_bias"].tolist()
        expected = select(logits, bias, 8, groups, kept)
        assert ids[t].tolist() == expected
        scores = [1 / (1 + math.exp(-logits[e])) for e in expected]
        total = sum(scores) if renormalise else 1.0
        close(weights[t], torch.tensor([s / total for s in scores]))


def test_glm_selection_counts_dropped_groups_as_zero() -> None:
    """Two groups; the kept one has a negative choice, so the zeros of the dropped one win the second place."""
    logits, bias = torch.zeros(1, 4), torch.tensor([0.3, -2.0, 0.0, 0.0])
    weights, ids = load("glm_select_experts_golden")[1](logits, bias, 2, False, 2, 1)
    assert ids[0, 0] == 0 and ids[0, 1] in (2, 3) and weights.tolist() == [[0.5, 0.5]]


def shared_expert(i: dict) -> torch.Tensor:
    steps, scale = int8(i["hidden_states"])
    both = steps @ i["w13"].double() * scale * i["w13_scale"]
    steps, scale = int8(silu(both[:, :24]) * both[:, 24:])
    return steps @ i["w2"].double() * scale * i["w2_scale"]


def test_the_int8_shared_expert_quantises_twice() -> None:
    i, out = run("glm_ffn_shared_expert_quant_golden")
    wanted = shared_expert(i)
    close(out / wanted.abs().max(), wanted / wanted.abs().max(), BF16)
    assert out.dtype == torch.bfloat16


def test_a_token_of_zeros_leaves_the_shared_expert_as_zeros() -> None:
    _, i = inputs_of("glm_ffn_shared_expert_quant_golden", "smoke")
    i["hidden_states"][1] = 0
    assert (load("glm_ffn_shared_expert_quant_golden")[1](**i)[1] == 0).all()


def test_the_fused_moe_returns_what_its_parts_return() -> None:
    i, (shared, weights, ids) = run("glm_moe_fusion_golden")
    wanted = shared_expert(i)
    close(shared / wanted.abs().max(), wanted / wanted.abs().max(), BF16)
    for t in range(4):
        logits = (i["gate_weight"].double() @ i["hidden_states"][t].double()).tolist()
        expected = select(logits, i["e_score_bias"].tolist(), 8, 1, 1)
        assert ids[t].tolist() == expected
        scores = torch.tensor([1 / (1 + math.exp(-logits[e])) for e in expected])
        close(weights[t], scores / scores.sum())


@pytest.mark.parametrize("norm_type", [0, 1])
@pytest.mark.parametrize("groups, kept, mode", [(1, 1, 0), (4, 2, 0), (4, 2, 1)])
def test_gating_scores_groups_and_renormalises(norm_type: int, groups: int, kept: int, mode: int) -> None:
    options = {"norm_type": norm_type, "group_count": groups, "k_group": kept, "group_select_mode": mode, "k": 4}
    i, (y, ids, scores) = run("moe_gating_topk_golden", **options, routed_scaling_factor=2.0)
    for t in range(8):
        x = i["x"][t].double()
        s = torch.sigmoid(x) if norm_type else x.exp() / x.exp().sum()
        close(scores[t], s)
        choice = (s + i["bias"].double()).tolist()
        size = 32 // groups
        parts = [sorted(choice[g * size : (g + 1) * size], reverse=True) for g in range(groups)]
        worth = [sum(part[: 2 if mode else 1]) for part in parts]
        best = sorted(range(groups), key=lambda g: -worth[g])[:kept]
        members = [e for g in best for e in range(g * size, (g + 1) * size)]
        expected = sorted(members, key=lambda e: -choice[e])[:4]
        assert ids[t].tolist() == expected
        wanted = s[expected] / (s[expected].sum() if norm_type else 1.0) * 2
        close(y[t], wanted)


@pytest.mark.parametrize("mode, expected", [(0, [0, 1]), (1, [2, 3])])
def test_gating_ranks_groups_by_their_best_or_their_two_best(mode: int, expected: list[int]) -> None:
    x = torch.tensor([[3.0, -9.0, 2.0, 1.9]])  # two groups: one great expert, two good ones
    _, ids, _ = load("moe_gating_topk_golden")[1](x, k=2, group_count=2, group_select_mode=mode, norm_type=1)
    assert ids.tolist() == [expected]


def test_one_expert_is_a_gated_block() -> None:
    i, out = run("llada2_expert_ffn_golden")
    both = i["x"].double() @ i["w13"].double()
    close(out, silu(both[:, :48]) * both[:, 48:] @ i["w2"].double(), BF16)


def oai(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    gate = torch.where(gate > 7, 7.0, gate)
    up = torch.where(up > 7, 7.0, torch.where(up < -7, -7.0, up))
    return gate / (1 + (-1.702 * gate).exp()) * (up + 1)


@pytest.mark.parametrize(
    "operator, activation",
    [
        ("llada2_moe_grouped_gemm_golden", lambda gate, up: silu(gate) * up),
        ("minimax_m27_moe_grouped_gemm_golden", lambda gate, up: silu(gate) * up),
        ("minimax_m3_moe_grouped_gemm_golden", oai),
    ],
)
def test_every_expert_sees_its_own_rows(operator: str, activation) -> None:
    _, i = inputs_of(operator, "smoke")
    i["sorted_tokens"] = i["sorted_tokens"] * 4  # some gates beyond the clamp at 7
    out = load(operator)[1](**i)
    ends = i["expert_cumsum"].tolist()
    assert ends == [0, 0, 3, 4, 4, 9, 9] and out.dtype == torch.bfloat16  # empty experts at both ends and between
    for row in range(9):
        e = next(e for e in range(6) if ends[e] <= row < ends[e + 1])
        both = i["sorted_tokens"][row].double() @ i["w13_flat"][64 * e : 64 * e + 64].double()
        if activation is oai and row == 0:
            assert both.abs().max() > 7
        wanted = activation(both[:32], both[32:]) @ i["w2_flat"][32 * e : 32 * e + 32].double()
        close(out[row] / wanted.abs().max(), wanted / wanted.abs().max(), BF16)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_finalize_routing_adds_up_the_experts_of_a_token(mode: int) -> None:
    _, i = inputs_of("moe_finalize_routing_v2_golden", "smoke")
    i["expanded_row_idx"][[1, 8]] = -1
    if mode in (1, 3):
        i["expanded_x"] = i["expanded_x"].unflatten(0, (4, 3))  # experts, capacity
    out = load("moe_finalize_routing_v2_golden")[1](**i, drop_pad_mode=mode)
    source = i["expanded_x"].reshape(12, 32).double()
    for t in range(6):
        wanted = i["x1"][t].double() + i["x2"][t].double()
        for k in range(2):
            r = int(i["expanded_row_idx"][k * 6 + t if mode < 2 else t * 2 + k])
            if r >= 0:
                wanted = wanted + float(i["scales"][t, k]) * (
                    source[r] + i["bias"][int(i["expert_idx"][t, k])].double()
                )
        close(out[t], wanted, BF16)
    assert out.dtype == torch.bfloat16


def test_finalize_routing_works_without_its_optional_parts() -> None:
    golden = load("moe_finalize_routing_v2_golden")[1]
    x = torch.randn(4, 8)
    out = golden(x, torch.tensor([3, 1, 0, 2]), x1=torch.zeros(2, 8))
    close(out, torch.stack([x[3] + x[0], x[1] + x[2]]))
    with pytest.raises(ValueError, match="needed to tell the number of rows"):
        golden(x, torch.tensor([3, 1, 0, 2]))


def test_allreduce_adds_the_ranks_products() -> None:
    i, out = run("matmul_allreduce_golden")
    close(out, torch.cat(i["x"], 1).double() @ torch.cat(i["weight"], 0).double(), BF16)
    assert out.dtype == torch.bfloat16


def test_allreduce_with_norm_returns_the_sum_as_well() -> None:
    i, _ = run("matmul_allreduce_add_rmsnorm_golden")
    i |= {"gamma": torch.randn(48).bfloat16(), "bias": torch.randn(48).bfloat16()}
    y, hidden = load("matmul_allreduce_add_rmsnorm_golden")[1](**i)
    wanted = torch.cat(i["x"], 1).double() @ torch.cat(i["weight"], 1).double().T + i["residual"].double()
    close(hidden, wanted, BF16)
    close(y, rms(wanted, i["gamma"], 1e-5) + i["bias"].double(), BF16)


def test_dispatch_orders_copies_by_expert_and_combine_brings_them_back() -> None:
    i, (dispatched, info, counts, combined) = run("moe_distributed_dispatch_combine_golden")
    copies = sorted((int(e), t, k) for t in range(8) for k, e in enumerate(i["expert_ids"][t]))
    assert info.tolist() == [[t // 2, t, k] for _, t, k in copies] and info.dtype == torch.int32
    assert all(torch.equal(dispatched[n], i["x"][t]) for n, (_, t, _) in enumerate(copies))
    assert counts.tolist() == [sum(e == expert for e, _, _ in copies) for expert in range(16)]
    close(combined, i["x"].double() * i["expert_scales"].double().sum(1, keepdim=True), BF16)
