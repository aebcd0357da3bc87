"""Grouped and quantised products against products of expanded rows in float64."""

from __future__ import annotations

import pytest
import torch
from oracles import int8, mx, mx_weight, same_steps
from support import close, inputs_of, load


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(37)


def run(operator: str, **changes):
    _, inputs = inputs_of(operator, "smoke")
    inputs |= changes
    return inputs, load(operator)[1](**inputs)


def grouped(i: dict) -> torch.Tensor:
    """The grouped product row by row."""
    owner = [g for g, count in enumerate(i["group_list"]) for _ in range(count)]
    rows = mx(i["a"], i["scaled_a"])
    return torch.stack([rows[r] @ mx_weight(i["b"][g], i["scaled_b"][g]) for r, g in enumerate(owner)])


def test_every_row_meets_the_weight_of_its_group() -> None:
    i, out = run("gmm_mxfp8_golden")
    assert i["group_list"] == [0, 3, 5] and out.dtype == torch.float32 and out.shape == (8, 32)
    close(out, grouped(i), 1e-4)


def test_scales_in_a_pair_cover_32_values_each() -> None:
    one = torch.ones((1, 64)).to(torch.float8_e4m3fn)
    scale = torch.tensor([[[2.0, 8.0]]]).to(torch.float8_e8m0fnu)
    weight = torch.ones(1, 64, 1).to(torch.float8_e4m3fn)
    ones = torch.ones(1, 1, 1, 2).to(torch.float8_e8m0fnu)
    assert load("gmm_mxfp8_golden")[1](one, scale, weight, ones, [1]).item() == 32 * 2 + 32 * 8


def test_grouped_swiglu_is_quantised_per_token() -> None:
    i, (y, scale) = run("grouped_matmul_swiglu_quant_golden")
    both = grouped(i)
    gate, up = both[:, :16], both[:, 16:]
    steps, wanted = int8(gate / (1 + (-gate).exp()) * up)
    same_steps(y, steps)
    close(scale / wanted[:, 0], torch.ones(8), 1e-4)
    assert scale.shape == (8,) and scale.dtype == torch.float32


@pytest.mark.parametrize("offset, weight", [(0, 1.0), (2, 0.5)])
def test_finalize_routing_adds_rows_to_their_tokens(offset: int, weight: float) -> None:
    i, out = run("grouped_matmul_finalize_routing_golden", shared_offset=offset, shared_weight=weight, output_rows=8)
    counts = i["group_list"].tolist()
    assert counts[0] == counts[3] == 0 and sum(counts) == 12 and len(set(i["row_index"].tolist())) < 12
    wanted = torch.zeros(8, 32, dtype=torch.float64)
    wanted[offset : offset + 5] = i["shared_input"].double() * weight
    rows, owner = mx(i["x1"], i["pertoken_scale"]), [g for g, count in enumerate(counts) for _ in range(count)]
    for r, g in enumerate(owner):
        wanted[int(i["row_index"][r])] += float(i["logit"][r]) * (mx(i["x2"][g], i["scale"][g]) @ rows[r])
    close(out, wanted, 1e-4)
    assert out.dtype == torch.float32


def test_groups_along_k_are_added_in_place_with_their_own_scale_rows() -> None:
    _, before = inputs_of("quant_grouped_matmul_inplace_add_golden", "smoke")
    i, out = run("quant_grouped_matmul_inplace_add_golden")
    assert out is i["y_init"]
    counts, start = i["group_list"].tolist(), 0
    assert counts[0] == counts[3] == 0 and sum(counts) == 256
    for g, count in enumerate(counts):
        wanted = before["y_init"][g].double().clone()
        for k in range(start, start + count):
            pair, half = start // 64 + g + (k - start) // 64, (k // 32) % 2
            left = i["a"][k].float().double() * i["scale_a"][pair, :, half].float().double()
            right = i["w"][k].float().double() * i["scale_w"][pair, :, half].float().double()
            wanted += torch.outer(left, right)
        close(out[g], wanted, 1e-4)
        start += count


def test_reduce_sum_dequantises_before_it_adds() -> None:
    i, out = run("quant_matmul_reduce_sum_golden")
    wanted = sum(
        (i["x1"][b].long() @ i["x2"][b].long()) * i["x1_scale"][b, :, None].double() * i["x2_scale"].double()
        for b in range(2)
    )
    close(out / wanted.abs().max(), wanted / wanted.abs().max(), 1e-2)
    assert out.dtype == torch.bfloat16


def test_int8_output_is_rounded_and_saturated() -> None:
    _, i = inputs_of("quant_batch_matmul_golden", "smoke")
    i |= {"x1_scale": i["x1_scale"] * 400}
    out = load("quant_batch_matmul_golden")[1](**i)
    wanted = (i["x1"].long() @ i["x2"].long().T) * i["x1_scale"].double() * i["x2_scale"].double()
    assert (wanted > 127).any() and (wanted < -128).any() and (wanted.abs() < 100).any()
    same_steps(out, wanted.round().clamp(-128, 127))


@pytest.mark.parametrize("perm_x2", [(0, 1, 2), (0, 2, 1)])
@pytest.mark.parametrize("dtype, number", [(torch.float16, 1), (torch.bfloat16, 27)])
def test_permuted_operands(perm_x2, dtype: torch.dtype, number: int) -> None:
    _, i = inputs_of("transpose_quant_batch_matmul_golden", "smoke")
    right = torch.stack([mx_weight(i["x2"][b], i["x2_scale"][b]) for b in range(3)])
    if perm_x2 == (0, 2, 1):
        i["x2"] = i["x2"].view(torch.uint8).transpose(1, 2).contiguous().view(torch.float8_e4m3fn)
        i["x2_scale"] = i["x2_scale"].view(torch.uint8).transpose(1, 2).contiguous().view(torch.float8_e8m0fnu)
    out = load("transpose_quant_batch_matmul_golden")[1](**i, perm_x2=perm_x2, dtype=number)
    assert out.shape == (4, 3, 32) and out.dtype == dtype
    left = mx(i["x1"], i["x1_scale"])
    for b in range(3):
        close(out[:, b], left[:, b] @ right[b], 1e-2)


def test_another_output_type_is_refused() -> None:
    with pytest.raises(ValueError, match="must be 1"):
        run("transpose_quant_batch_matmul_golden", dtype=0)
