"""Dense, paged and fused-layer attention against one query at a time in float64, and against autograd."""

from __future__ import annotations

import pytest
import torch
from oracles import attend, hifloat8, rms, tokens_of, turn
from support import close, inputs_of, load

from golden.dense_attention.glm_paged_attention_golden import glm_paged_attention_golden

BF16 = 2e-2


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(17)


def test_paged_attention_agrees_with_a_loop_over_sequences_and_heads() -> None:
    _, inputs = inputs_of("glm_paged_attention_golden", "smoke")
    out = glm_paged_attention_golden(**inputs)
    q, lengths = inputs["q"], inputs["actual_seqs"].tolist()
    assert out.dtype == q.dtype and lengths[0] == 100 and lengths[-1] == 1
    for b, length in enumerate(lengths):
        keys, vals = (tokens_of(inputs[name], inputs["block_table"][b], length) for name in ("k_cache", "v_cache"))
        for h in range(q.shape[1]):
            group = h // (q.shape[1] // keys.shape[1])
            close(out[b, h], attend(q[b, h], keys[:, group], vals[:, group], 32**-0.5), 1e-2)


def test_paged_attention_of_one_token_returns_its_value_whatever_the_padding() -> None:
    q, cache = torch.randn(1, 2, 4), torch.randn(3, 2, 1, 4)
    for padding in (-1, 0, 2):
        table = torch.tensor([[1, padding]], dtype=torch.int32)
        out = glm_paged_attention_golden(q, cache, cache, table, torch.tensor([1], dtype=torch.int32))
        close(out[0], cache[1, 0].expand(2, 4))


def test_paged_attention_does_not_depend_on_where_the_pages_lie() -> None:
    _, inputs = inputs_of("glm_paged_attention_golden", "smoke")
    expected = glm_paged_attention_golden(**inputs)
    order = torch.randperm(32)
    table = inputs["block_table"].long()
    moved = {name: inputs[name][order.argsort()] for name in ("k_cache", "v_cache")}
    inputs |= moved | {"block_table": torch.where(table < 0, table, order[table.clamp(min=0)])}
    assert torch.equal(glm_paged_attention_golden(**inputs), expected)


def run(operator: str, **changes):
    _, inputs = inputs_of(operator, "smoke")
    inputs |= changes
    return inputs, load(operator)[1](**inputs)


LENGTHS = (20, 1, 9)  # of the packed smoke cases
STARTS = (0, 20, 21)


def test_packed_attention_agrees_per_sequence_and_returns_its_statistics() -> None:
    i, (o, l, m) = run("flash_attention_mha_golden")  # noqa: E741
    assert o.dtype == torch.bfloat16 and l.dtype == m.dtype == torch.float32 and l.shape == m.shape == (30, 2, 1)
    for start, length in zip(STARTS, LENGTHS, strict=True):
        rows = slice(start, start + length)
        for h in range(2):
            columns = slice(16 * h, 16 * h + 16)
            k, v = i["k"][rows, columns], i["v"][rows, columns]
            for t in range(start, start + length):
                close(o[t, columns], attend(i["q"][t, columns], k, v, 0.25), BF16)
                logits = k.double() @ i["q"][t, columns].double() * 0.25
                close(m[t, h, 0], logits.max())
                close(l[t, h, 0] * m[t, h, 0].exp(), logits.exp().sum(), 1e-4)


def relative(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    """Close in units of the largest expected magnitude."""
    size = expected.abs().max()
    close(actual / size, expected / size, tolerance)


def test_gradient_of_packed_attention_is_autograds() -> None:
    i, grads = run("flash_attention_mha_grad_golden")
    assert i["actual_q"].tolist() == list(LENGTHS)
    leaves = [i[name].double().requires_grad_() for name in ("q", "k", "v")]
    total = 0.0
    for start, length in zip(STARTS, LENGTHS, strict=True):
        q, k, v = (x[start : start + length].transpose(0, 1)[None] for x in leaves)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)
        total = total + (out * i["do"][start : start + length].double()).sum()
    total.backward()
    for actual, leaf in zip(grads, leaves, strict=True):
        assert actual.dtype == torch.bfloat16
        relative(actual, leaf.grad, BF16)


def test_attention_score_applies_bias_mask_and_dropout() -> None:
    i, (out, maximum, total) = run("flash_attention_score_golden")
    assert maximum.shape == total.shape == (1, 4, 16, 1) and out.dtype == torch.bfloat16
    drop = torch.where(torch.rand(16, 16) < 0.25, 0.0, 1 / 0.75).bfloat16()
    dropped = load("flash_attention_score_golden")[1](**i | {"drop_mask": drop})[0]
    seen = i["atten_mask"] == 0
    assert 0 < seen.sum() < 256 and seen.any(-1).all()
    for h in range(4):
        q, k, v = (i[n][0, h // (1 if n == "query" else 2)].double() for n in ("query", "key", "value"))
        for t in range(16):
            keys = seen[t].nonzero().flatten()
            logits = (k[keys] @ q[t] + i["pse"][0, h, t, keys].double()) * 0.25
            p = torch.softmax(logits, 0)
            close(out[0, h, t], p @ v[keys], BF16)
            close(dropped[0, h, t], (p * drop[t, keys].double()) @ v[keys], BF16)
            close(maximum[0, h, t, 0], logits.max(), 1e-4)
            close(total[0, h, t, 0], (logits - logits.max()).exp().sum(), 1e-4)


def test_attention_score_of_a_wholly_masked_row_is_finite() -> None:
    i, (out, _, _) = run("flash_attention_score_golden", atten_mask=torch.ones(16, 16))
    free = load("flash_attention_score_golden")[1](**i | {"atten_mask": torch.zeros(16, 16)})[0]
    close(out, free, 4e-2)  # scores lose bits beside 1e4


def test_gradient_of_attention_score_is_autograds() -> None:
    i, grads = run("flash_attention_score_grad_golden")
    leaves = [i[name].double().requires_grad_() for name in ("query", "key", "value")]
    (torch.nn.functional.scaled_dot_product_attention(*leaves) * i["dy"].double()).sum().backward()
    for actual, leaf in zip(grads, leaves, strict=True):
        relative(actual, leaf.grad, BF16)


def test_hifloat8_attention_quantises_its_probabilities() -> None:
    i, out = run("flash_attention_fp8_golden")
    assert out.dtype == torch.bfloat16 and torch.equal(i["k"].double(), hifloat8(i["k"]))
    for start, length in zip(STARTS, LENGTHS, strict=True):
        rows = slice(start, start + length)
        for h in range(2):
            k, v = (i[n][rows, h].double() * i[f"{n}_scale"][rows, h] for n in ("k", "v"))
            for t in range(start, start + length):
                logits = k @ (i["q"][t, h].double() * i["q_scale"][t, h]) * 0.25
                p = (logits - logits.max()).exp()
                expected = hifloat8(p * 16) / 16 @ v / p.sum()
                relative(out[t, h], expected, 3e-2)  # a probability beside a rounding boundary may go either way


@pytest.mark.parametrize(
    "operator, lengths, new",
    [("incre_flash_attention_golden", (60, 1, 33), 1), ("prompt_flash_attention_golden", (60, 3, 33), 3)],
)
def test_paged_attention_with_heads_first_pages(operator: str, lengths: tuple[int, ...], new: int) -> None:
    i, out = run(operator)
    assert out.dtype == torch.bfloat16
    for b, length in enumerate(lengths):
        keys, vals = (
            tokens_of(i[name].transpose(1, 2), i["block_table"][b], length) for name in ("key_cache", "value_cache")
        )
        for s in range(new):
            seen = length - (new - 1 - s)
            for h in range(4):
                expected = attend(i["q"][b * new + s, h], keys[:seen, h // 2], vals[:seen, h // 2], 0.25)
                close(out[b * new + s, h], expected, BF16)


def test_paged_attention_dequantises_per_head_and_channel() -> None:
    i, out = run("incre_flash_attention_gqa_antiquant_golden")
    assert i["key"].dtype == torch.float8_e4m3fn and out.shape == i["query"].shape
    for b, length in enumerate((60, 2, 33)):
        keys, vals = (
            tokens_of(i[name].float().transpose(1, 2), i["block_table"][b], length).double()
            * i[f"{name}_antiquant_scale"].double()
            for name in ("key", "value")
        )
        for s in range(2):
            for h in range(4):
                seen = length - 1 + s
                expected = attend(i["query"][b, h, s], keys[:seen, h // 2], vals[:seen, h // 2], 0.25)
                close(out[b, h, s], expected, BF16)


def test_paged_mla_uses_the_latent_part_as_value() -> None:
    i, out = run("incre_flash_attention_mla_golden")
    for b, length in enumerate((60, 1, 33)):
        latent, rope = (tokens_of(i[n][:, 0], i["block_table"][b], length) for n in ("key", "key_rope"))
        for h in range(4):
            q = torch.cat([i["query"][b, 0, h], i["query_rope"][b, 0, h]])
            close(out[b, 0, h], attend(q, torch.cat([latent, rope], -1), latent, 24**-0.5), BF16)


def test_fp8_paged_attention_quantises_its_probabilities_per_row() -> None:
    i, out = run("page_attention_quant_fp8_golden")
    assert out.dtype == torch.bfloat16
    for b, length in enumerate((60, 1, 33)):
        keys, vals, scales = (
            tokens_of(i[n].float(), i["block_table"][b], length).double() for n in ("k_cache", "v_cache", "k_scale")
        )
        for h in range(4):
            q = i["q"][b, h].float().double() * i["q_scale"][b, h]
            p = torch.softmax((keys[:, h // 2] * scales[:, h // 2]) @ q * 0.25, 0)
            step = p.max() / 448
            quantised = (p / step).float().to(torch.float8_e4m3fn).double() * step
            relative(out[b, h], quantised @ vals[:, h // 2] * i["v_scale"][b, h // 2], BF16)


@pytest.mark.parametrize("operator", ["glm_attention_golden", "glm_attention_fusion_golden"])
def test_glm_attention_writes_its_token_and_attends_to_it(operator: str) -> None:
    _, before = inputs_of(operator, "smoke")
    i, (out, residual, k_cache, v_cache) = run(operator)
    assert k_cache is i["k_cache"] and v_cache is i["v_cache"] and out.dtype == torch.bfloat16
    close(residual, i["hidden_states"].double() + i["residual"].double(), BF16)
    normed = rms(i["hidden_states"].double() + i["residual"].double(), eps=1e-5)
    steps = (normed * 30).round().clamp(-128, 127)
    y = (steps @ i["qkv_weight"].double() + i["quant_bias"]) * i["deq_scale"]
    for b, length in enumerate(i["actual_seqs"].tolist()):
        slot = int(i["block_tables"][b, (length - 1) // 16]) * 16 + (length - 1) % 16
        assert int(i["slot_mapping"][b]) == slot
        close(v_cache.flatten(0, 1)[slot, 0], y[b, 80:], 5e-2)
        keys, vals = (tokens_of(c, i["block_tables"][b], length)[:, 0] for c in (k_cache, v_cache))
        for h in range(4):
            head = rms(y[b, 16 * h : 16 * h + 16], eps=1e-5)
            head = torch.cat([turn(head[:8], *(t[b, 0] for t in (i["cos"], i["sin"])), "half"), head[8:]])
            close(out[b, 16 * h : 16 * h + 16], attend(head, keys, vals, 0.25), 5e-2)
    changed = (k_cache != before["k_cache"]).flatten(0, 1).any(-1).any(-1).nonzero().flatten().tolist()
    assert changed == sorted(i["slot_mapping"].tolist())


@pytest.mark.parametrize("kind, kept", [("local", 16), ("global", 40)])
@pytest.mark.parametrize("masked", [False, True])
def test_gemma_averages_neighbouring_kv_heads(kind: str, kept: int, masked: bool) -> None:
    mask = torch.zeros(1, 1, 1, 40)
    mask[..., 30] = float("-inf")
    i, out = run("gemma4_gqa_decode_attn_golden", layer_kind=kind, mask=mask if masked else None)
    rows = [j for j in range(40 - kept, 40) if not (masked and j == 30)]
    for h in range(8):
        group = slice(4 * (h // 4), 4 * (h // 4) + 4)
        k, v = (sum(head.double() for head in i[n][0, group]) / 4 for n in ("k", "v"))
        close(out[0, h, 0], attend(i["q"][0, h, 0], k[rows], v[rows], 1 / 16), BF16)


def test_gemma_refuses_an_unknown_kind_of_layer() -> None:
    with pytest.raises(ValueError, match='must be "global" or "local"'):
        run("gemma4_gqa_decode_attn_golden", layer_kind="sliding")


def test_gemma_softmax_scales_its_scores() -> None:
    i, out = run("gemma4_attn_softmax_golden")
    weights = (i["scores"].double() / 16).exp()
    close(out, weights / weights.sum(-1, keepdim=True), 4e-3)
    assert out.dtype == torch.bfloat16


def layer_in_float64(i: dict, x: torch.Tensor, past_k: torch.Tensor, past_v: torch.Tensor) -> torch.Tensor:
    """A Qwen3 layer for tokens x [S, H] behind cached keys and values [Nkv, P, D], head by head."""
    w = {name: value.double() for name, value in i.items() if isinstance(value, torch.Tensor)}
    normed = rms(x, i["input_ln"], 1e-6)
    past, tokens = past_k.shape[1], len(x)
    heads = []
    for n in range(4):
        q = rms((normed @ w["wq"])[:, 16 * n : 16 * n + 16], i["q_norm"], 1e-6)
        k = rms((normed @ w["wk"])[:, 16 * (n // 2) : 16 * (n // 2) + 16], i["k_norm"], 1e-6)
        v = (normed @ w["wv"])[:, 16 * (n // 2) : 16 * (n // 2) + 16]
        q, k = (turn(t, i["cos"], i["sin"], "half") for t in (q, k))
        k, v = torch.cat([past_k[n // 2].double(), k]), torch.cat([past_v[n // 2].double(), v])
        heads.append(torch.stack([attend(q[t], k[: past + t + 1], v[: past + t + 1], 0.25) for t in range(tokens)]))
    hidden = x.double() + torch.cat(heads, -1) @ w["wo"]
    normed = rms(hidden, i["post_ln"], 1e-6)
    gate = normed @ w["w_gate"]
    return hidden + (gate / (1 + (-gate).exp()) * (normed @ w["w_up"])) @ w["w_down"]


def test_qwen3_prefill_is_a_decoder_layer() -> None:
    _, i = inputs_of("qwen3_decoder_layer_prefill_golden", "smoke")
    for name in ("input_ln", "post_ln", "q_norm", "k_norm"):
        i[name] = (1 + torch.randn(i[name].shape) * 0.2).bfloat16()
    out = load("qwen3_decoder_layer_prefill_golden")[1](**i)
    empty = torch.zeros(2, 0, 16)
    close(out[0], layer_in_float64(i, i["x"][0], empty, empty), 5e-2)
    assert out.dtype == torch.bfloat16 and out.shape == i["x"].shape


def test_qwen3_decode_continues_the_cache() -> None:
    i, (out, keys, values) = run("qwen3_decoder_layer_decode_golden")
    assert keys.shape == values.shape == (2, 2, 21, 16) and torch.equal(keys[:, :, :20], i["k_cache"])
    for b in range(2):
        close(out[b], layer_in_float64(i, i["x"][b], i["k_cache"][b], i["v_cache"][b]), 5e-2)


def test_qwen3_decode_after_prefill_is_the_longer_prefill() -> None:
    _, i = inputs_of("qwen3_decoder_layer_prefill_golden", "smoke")
    i = {name: value.float() for name, value in i.items()}
    whole = load("qwen3_decoder_layer_prefill_golden")[1](**i)
    decode = load("qwen3_decoder_layer_decode_golden")[1]
    cache = {"k_cache": torch.zeros(1, 2, 0, 16), "v_cache": torch.zeros(1, 2, 0, 16)}
    for t in range(6):
        step = {"x": i["x"][:, t : t + 1], "cos": i["cos"][t : t + 1], "sin": i["sin"][t : t + 1]}
        y, keys, values = decode(**i | step | cache)
        cache = {"k_cache": keys, "v_cache": values}
        close(y[:, 0], whole[:, t], 1e-4)


def test_pangu_layer_writes_its_row_and_attends_up_to_it() -> None:
    _, i = inputs_of("pangu_fused_layer_v2_bsh_golden", "smoke")
    i["ln_weight"] = (1 + torch.randn(64, 2) * 0.2).bfloat16()
    history = {name: i[name].clone() for name in ("key_cache", "value_cache")}
    out, residual, keys, values = load("pangu_fused_layer_v2_bsh_golden")[1](**i)
    w = {name: value.double() for name, value in i.items()}
    r = w["hidden_states"][0, 0] + w["residual"][0, 0]
    qkv = w["qkv_weight"] @ rms(r, i["ln_weight"][:, 0], 1e-5) + w["qkv_bias"]
    row = (i["cos"][20], i["sin"][20])
    for n in range(2):
        columns = slice(16 * n, 16 * n + 16)
        close(keys[20, columns], turn(qkv[64:96][columns], *row, "half"), BF16)
        close(values[20, columns], qkv[96:][columns], BF16)
    for name, cache in (("key_cache", keys), ("value_cache", values)):
        assert cache is i[name] and torch.equal(cache[:20], history[name][:20])
        assert torch.equal(cache[21:], history[name][21:])
    heads = []
    for n in range(4):
        columns = slice(16 * (n // 2), 16 * (n // 2) + 16)
        q = turn(qkv[16 * n : 16 * n + 16], *row, "half")
        heads.append(attend(q, keys[:21, columns], values[:21, columns], 0.25))
    hidden = r + w["o_weight"] @ torch.cat(heads) + w["o_bias"]
    close(residual[0, 0], hidden, 5e-2)
    normed = rms(hidden, i["ln_weight"][:, 1], 1e-5)
    gate = w["gate_weight"] @ normed
    expected = w["down_weight"] @ (gate / (1 + (-gate).exp()) * (w["up_weight"] @ normed))
    close(out[0, 0], expected, 5e-2)


def test_worker_combine_adds_the_shared_expert_unscaled() -> None:
    i, out = run("attention_worker_combine_golden")
    for b in range(4):
        expected = i["token_data"][b, 2].double().clone()
        for k in range(2):
            expected += i["token_data"][b, k].double() * float(i["expert_scales"][b, k])
        close(out[b], expected, BF16)


def kimi_in_float64(blocks, proj_weight, gamma, scale=1.0, eps=1e-6):
    scores = [(rms(v, gamma, eps) * proj_weight.double()).sum(-1) * scale for v in blocks]
    total = sum(s.exp() for s in scores)
    return sum((s.exp() / total)[..., None] * v.double() for s, v in zip(scores, blocks, strict=True))


def test_kimi_residual_attention_weighs_its_blocks() -> None:
    gamma = (1 + torch.randn(32) * 0.3).bfloat16()
    i, (h, rms_cache, alpha) = run("kimi_block_attn_res_fwd_golden", gamma=gamma, scale=2.0, eps=0.1)
    blocks = [*i["blocks"], i["partial_block"]]
    close(h, kimi_in_float64(blocks, i["proj_weight"], gamma, 2.0, 0.1), BF16)
    assert alpha.shape == (2, 4, 4) and rms_cache.shape == (2, 4, 4, 1) and h.dtype == torch.bfloat16
    close(alpha.sum(-1), torch.ones(2, 4))
    close(rms_cache[..., 3, 0], (blocks[3].double().square().mean(-1) + 0.1).sqrt())


def test_gradient_of_kimi_residual_attention_is_autograds() -> None:
    gamma = 1 + torch.randn(32) * 0.3
    _, i = inputs_of("kimi_block_attn_res_fwd_golden", "smoke")
    i["gamma"] = gamma
    _, rms_cache, alpha = load("kimi_block_attn_res_fwd_golden")[1](**i, scale=2.0)
    blocks, g = [*i["blocks"], i["partial_block"]], torch.randn(2, 4, 32).bfloat16()
    backward = load("kimi_block_attn_res_bwd_golden")[1]
    grads, d_weight, d_gamma = backward(g, blocks, i["proj_weight"], alpha, rms_cache, gamma, scale=2.0)
    leaves = [x.double().requires_grad_() for x in (*blocks, i["proj_weight"], gamma)]
    (kimi_in_float64(leaves[:4], leaves[4], leaves[5], 2.0) * g.double()).sum().backward()
    for actual, leaf in zip((*grads, d_weight, d_gamma), leaves, strict=True):
        relative(actual, leaf.grad, BF16)
