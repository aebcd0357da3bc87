"""MLA projections against per-head products, complex rotations and quantisers in float64."""

from __future__ import annotations

import inspect

import pytest
import torch
from oracles import hifloat8, int8, mx, mx_rounded, mx_weight, rms, same_steps, turn
from support import close, inputs_of

from golden.mla_prolog.ds_v4_mla_prolog_quant_v4_golden import ds_v4_mla_prolog_quant_v4_golden
from golden.mla_prolog.ds_v4_mla_prolog_v4_golden import ds_v4_mla_prolog_v4_golden
from golden.mla_prolog.ds_v32_mla_indexer_prolog_quant_golden import ds_v32_mla_indexer_prolog_quant_golden
from golden.mla_prolog.ds_v32_mla_prolog_golden import ds_v32_mla_prolog_golden
from golden.mla_prolog.ds_v32_mla_prolog_quant_golden import ds_v32_mla_prolog_quant_golden
from golden.mla_prolog.glm_attention_pre_quant_golden import glm_attention_pre_quant_golden
from golden.mla_prolog.mla_prolog_ds_v2_lite_golden import mla_prolog_ds_v2_lite_golden
from golden.mla_prolog.mla_prolog_golden import mla_prolog_golden
from golden.mla_prolog.mla_prolog_mxfp_quant_v3_golden import mla_prolog_mxfp_quant_v3_golden
from golden.mla_prolog.mla_prolog_quant_hifp8_v3_golden import mla_prolog_quant_hifp8_v3_golden

BF16 = 2e-2  # a bfloat16 output of size 1 to 4


def case(operator: str) -> dict:
    """The smoke inputs with gains that are not one, so that a forgotten gain shows."""
    _, inputs = inputs_of(operator, "smoke")
    for name, tensor in inputs.items():
        if "gamma" in name or name == "ln_weight":
            inputs[name] = tensor + (torch.randn(tensor.shape) * 0.2).to(tensor.dtype)
    if "cos" in inputs and inputs["cos"].dim() == 2:
        angle = torch.rand(len(inputs["cos"]), inputs["cos"].shape[1] // 2) * 6
        inputs["cos"] = torch.cat([angle.cos()] * 2, -1).to(inputs["cos"].dtype)
        inputs["sin"] = torch.cat([angle.sin()] * 2, -1).to(inputs["sin"].dtype)
    return inputs


def absorbed(query, w_uk, cos, sin, layout):
    """q_nope and q_rope of [T, N (Dn + Dr)], head by head."""
    heads, nope, _ = w_uk.shape
    width = query.shape[-1] // heads
    q_nope, q_rope = [], []
    for h in range(heads):
        head = query[:, h * width : (h + 1) * width].double()
        q_nope.append(head[:, :nope] @ w_uk[h].double())
        q_rope.append(turn(head[:, nope:], cos, sin, layout))
    return torch.stack(q_nope, 1), torch.stack(q_rope, 1)


def test_v2_lite_expands_keys_and_values_per_head() -> None:
    i = case("mla_prolog_ds_v2_lite_golden")
    k_nope, v, k_pe = mla_prolog_ds_v2_lite_golden(**i)
    x = i["hidden_states"].reshape(6, 64).double()
    kv = x @ i["kv_a_weight"].double()
    up = rms(kv[:, :32], i["ln_weight"], 1e-6) @ i["kv_b_weight"].double()
    for h in range(4):
        close(k_nope[:, h], up[:, 32 * h : 32 * h + 16], 2e-3)
        close(v[:, h], up[:, 32 * h + 16 : 32 * h + 32], 2e-3)
    close(k_pe, turn(kv[:, 32:], i["cos"], i["sin"], "half"), 2e-3)
    assert k_nope.dtype == v.dtype == k_pe.dtype == torch.float16


def test_v32_prolog_agrees_head_by_head() -> None:
    i = case("ds_v32_mla_prolog_golden")
    outputs = ds_v32_mla_prolog_golden(**i)
    x = i["x"].double()
    query = rms(x @ i["w_dq"].double(), i["gamma_cq"], 1e-5) @ i["w_uq_qr"].double()
    kv = x @ i["w_dkv_kr"].double()
    expected = (
        *absorbed(query, i["w_uk"], i["cos"], i["sin"], "half"),
        rms(kv[:, :32], i["gamma_ckv"], 1e-5),
        turn(kv[:, 32:], i["cos"], i["sin"], "half"),
    )
    for actual, wanted in zip(outputs, expected, strict=True):
        assert actual.dtype == torch.bfloat16
        close(actual, wanted, BF16)


def test_v32_quantised_prolog_agrees_and_writes_its_slots_only() -> None:
    i = case("ds_v32_mla_prolog_quant_golden")
    i["cache_index"][0, 1] = -1
    q_nope, q_rope, q_norm, q_scale, kv_cache, kr_cache, k_scales = ds_v32_mla_prolog_quant_golden(**i)
    x = i["x"].double()
    steps, scale = int8(rms(x @ i["w_dq"].double(), i["gamma_cq"], 1e-5))
    same_steps(q_norm, steps)
    close(q_scale, scale)
    query = (q_norm.double() @ i["w_uq_qr"].double()) * q_scale * i["w_qb_scale"]
    for actual, wanted in zip(
        (q_nope, q_rope), absorbed(query, i["w_uk"], i["cos"], i["sin"], "interleaved"), strict=True
    ):
        assert actual.dtype == torch.bfloat16
        close(actual, wanted, BF16)

    kv = x @ i["w_dkv_kr"].double()
    k_nope, k_rope = rms(kv[:, :32], i["gamma_ckv"], 1e-5), turn(kv[:, 32:], i["cos"], i["sin"], "interleaved")
    written = i["cache_index"][0].tolist()
    for token, slot in enumerate(written):
        if slot < 0:
            continue
        for group in range(4):
            columns = slice(8 * group, 8 * group + 8)
            steps, scale = int8(k_nope[token, columns])
            same_steps(kv_cache[slot // 16, slot % 16, 0, columns], steps)
            close(k_scales[slot // 16, slot % 16, 0, group : group + 1], scale)
        close(kr_cache[slot // 16, slot % 16, 0], k_rope[token], BF16)
    used = (k_scales != 0).any(-1).flatten().nonzero().flatten().tolist()
    assert used == sorted(slot for slot in written if slot >= 0) and len(used) == 3
    assert kv_cache is i["kv_cache"] and kr_cache is i["kr_cache"] and k_scales is i["k_scale_cache"]


def test_the_fused_prolog_feeds_the_quantised_latent_to_the_indexer() -> None:
    i = case("ds_v32_mla_indexer_prolog_quant_golden")
    outputs = ds_v32_mla_indexer_prolog_quant_golden(**i)
    assert len(outputs) == 12
    q_norm, q_scale, idx_q, idx_scale = outputs[2], outputs[3], outputs[7], outputs[8]
    query = (q_norm.double() @ i["w_idx_qb"].double()) * q_scale * i["w_idx_qb_scale"]
    for h in range(4):
        head = query[:, 16 * h : 16 * h + 16]
        head = torch.cat([turn(head[:, :8], i["cos"], i["sin"], "half"), head[:, 8:]], -1) @ i["hadamard_q"].double()
        steps, scale = int8(head)
        same_steps(idx_q[:, h], steps)
        close(idx_scale[:, h], scale[:, 0], 1e-3)

    again = case("ds_v32_mla_indexer_prolog_quant_golden")
    names = set(inspect.signature(ds_v32_mla_prolog_quant_golden).parameters) & set(again)
    alone = ds_v32_mla_prolog_quant_golden(**{n: again[n] for n in names}, w_qb_scale=again["w_uq_qr_scale"])
    assert all(torch.equal(a, b) for a, b in zip(outputs[:7], alone, strict=True))
    assert (i["idx_k_scale_cache"].flatten().nonzero().flatten() == i["cache_index"][0].sort().values).all()


@pytest.mark.parametrize("eps", [1e-5, 0.5])  # a small eps hides the scales, which the norm of every head divides out
@pytest.mark.parametrize("quantised", [False, True])
def test_v4_prolog_norms_every_head_and_turns_its_tail(quantised: bool, eps: float) -> None:
    name = "ds_v4_mla_prolog_quant_v4_golden" if quantised else "ds_v4_mla_prolog_v4_golden"
    i = case(name)
    x = i["x"].double()
    latent = rms(x @ i["wq_a"].double(), i["gamma_cq"], eps)
    if quantised:
        q, kv, steps, scale = ds_v4_mla_prolog_quant_v4_golden(**i, eps=eps)
        expected_steps, expected_scale = int8(latent)
        same_steps(steps, expected_steps)
        close(scale, expected_scale)
        query = steps.double() @ i["wq_b"].double() * scale * i["wq_b_scale"].T
    else:
        q, kv = ds_v4_mla_prolog_v4_golden(**i, eps=eps)
        query = latent @ i["wq_b"].double()

    def tail(row):
        return torch.cat([row[:, :16], turn(row[:, 16:], i["cos"], i["sin"], "pairs")], -1)

    for h in range(4):
        close(q[:, h], tail(rms(query[:, 24 * h : 24 * h + 24], eps=eps)), BF16)
    close(kv, tail(rms(x @ i["w_kv"].double(), i["gamma_ckv"], eps)), BF16)
    assert q.dtype == kv.dtype == torch.bfloat16


def test_mla_prolog_takes_all_rope_columns_from_the_end() -> None:
    i = case("mla_prolog_golden")
    i["rope_cos"], i["rope_sin"] = i["rope_cos"].roll(1, 0), i["rope_sin"].roll(1, 0)
    query, query_rope, kv, kr = mla_prolog_golden(**i)
    x = i["token_x"].double()
    columns = rms(x @ i["weight_dq"].double(), i["rmsnorm_gamma_cq"], 1e-5) @ i["weight_uq_qr"].double()
    for h in range(4):
        close(query[:, h], columns[:, 16 * h : 16 * h + 16] @ i["weight_uk"][h].double(), BF16)
        turned = turn(columns[:, 64 + 8 * h : 72 + 8 * h], i["rope_cos"], i["rope_sin"], "pairs")
        close(query_rope[:, h], turned, BF16)
    latent = x @ i["weight_dkv_kr"].double()
    close(kv, rms(latent[:, :32], i["rmsnorm_gamma_ckv"], 1e-5), BF16)
    close(kr, turn(latent[:, 32:], i["rope_cos"], i["rope_sin"], "pairs"), BF16)


def check_v3(i, outputs, query, kv):
    """What the two 8-bit prologs share once their projections are known."""
    q_nope, q_rope, kv_cache, kr_cache = outputs
    for actual, wanted in zip((q_nope, q_rope), absorbed(query, i["w_uk"], i["cos"], i["sin"], "half"), strict=True):
        close(actual / wanted.abs().max(), wanted / wanted.abs().max(), BF16)
    for token, slot in enumerate(i["cache_index"].tolist()):
        close(kv_cache.flatten(0, 1)[slot, 0], rms(kv[token, :32], i["gamma_ckv"], 1e-6), BF16)
        turned = turn(kv[token, 32:], i["cos"][token], i["sin"][token], "half")
        close(kr_cache.flatten(0, 1)[slot, 0] / turned.norm(), turned / turned.norm(), BF16)
    assert (kv_cache.flatten(0, 1) != 0).any(-1).sum() == 4
    assert q_nope.dtype == kv_cache.dtype == torch.bfloat16


def test_mxfp8_prolog_agrees_with_operands_expanded_column_by_column() -> None:
    i = case("mla_prolog_mxfp_quant_v3_golden")
    outputs = mla_prolog_mxfp_quant_v3_golden(**i)
    x = mx(i["token_x"], i["token_x_scale"])
    latent = rms(x @ mx_weight(i["w_dq"], i["w_dq_scale"]), i["gamma_cq"], 1e-6)
    query = mx_rounded(latent) @ mx_weight(i["w_uq_qr"], i["w_uq_qr_scale"])
    check_v3(i, outputs, query, x @ mx_weight(i["w_dkv_kr"], i["w_dkv_kr_scale"]))


def test_hifloat8_prolog_agrees_with_a_table_of_all_values() -> None:
    i = case("mla_prolog_quant_hifp8_v3_golden")
    assert torch.equal(i["token_x"].double(), hifloat8(i["token_x"]))
    outputs = mla_prolog_quant_hifp8_v3_golden(**i)
    x = i["token_x"].double() * i["token_x_scale"]
    latent = rms(x @ (i["w_dq"].double() * i["w_dq_scale"]), i["gamma_cq"], 1e-6)
    scale = latent.abs().amax(-1, keepdim=True) / 32768
    query = (hifloat8(latent / scale) * scale) @ (i["w_uq_qr"].double() * i["w_uq_qr_scale"])
    check_v3(i, outputs, query, x @ (i["w_dkv_kr"].double() * i["w_dkv_kr_scale"]))


def test_glm_prolog_agrees_and_saturates() -> None:
    i = case("glm_attention_pre_quant_golden")
    angle = torch.rand(4, 1, 4) * 6
    i["cos"], i["sin"] = angle.cos(), angle.sin()
    i["x_scale"] = i["x_scale"] * 3  # beyond what int8 holds for the largest values
    for name in ("ln_bias", "x_offset", "q_bias", "k_bias"):
        i[name] = torch.randn(i[name].shape).bfloat16()
    i["x_offset"] = i["x_offset"] * 20  # steps of the quantised input
    q, k, v, residual = glm_attention_pre_quant_golden(**i)
    h = i["hidden_states"].double() + i["residual"].double()
    close(residual, h, BF16)
    steps = ((rms(h, i["ln_gamma"], 1e-5) + i["ln_bias"]) * i["x_scale"] + i["x_offset"]).round().clamp(-128, 127)
    assert (steps == 127).any() and (steps == -128).any()
    y = (steps @ i["weight"].double() + i["quant_bias"]) * i["deq_scale"]
    heads = [y[:, 16 * n : 16 * n + 16] for n in range(6)]

    def turned(head, gamma, bias):
        normed = rms(head, gamma, 1e-5) + bias.double()
        return torch.cat([turn(normed[:, :8], i["cos"][:, 0], i["sin"][:, 0], "half"), normed[:, 8:]], -1)

    close(q, torch.cat([turned(head, i["q_gamma"], i["q_bias"]) for head in heads[:4]], -1), 5e-2)
    close(k, turned(heads[4], i["k_gamma"], i["k_bias"]), 5e-2)
    close(v, heads[5], 5e-2)
