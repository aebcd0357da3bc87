"""Sparse, window and block attention against one query at a time in float64, and against autograd."""

from __future__ import annotations

import pytest
import torch
from oracles import attend, tokens_of
from support import close, inputs_of, load

BF16 = 2e-2


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(29)


def run(operator: str, **changes):
    _, inputs = inputs_of(operator, "smoke")
    inputs |= changes
    return inputs, load(operator)[1](**inputs)


def unpack(operator: str, i: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and rope of all cache rows in float64; packed rows are read one field at a time with numpy."""
    if operator.startswith("ds_v32_sparse_flash"):
        nope, rope, scales = i["k_nope"].double(), i["k_rope"].double(), i["k_scale"].double()
    elif operator.endswith("kv_split_golden"):
        nope, rope, scales = i["kn_quant"].float().double(), i["kr"].double(), i["kn_scales"].double()
    else:
        packed = i.get("nope_cache", i.get("kv_cache"))
        raw = packed.view(torch.uint8).numpy()
        values = torch.from_numpy(raw[:, :32].copy())
        nope = (values.view(torch.int8) if "nope_cache" in i else values.view(torch.float8_e4m3fn).float()).double()
        rope_bits = torch.from_numpy(raw[:, 32:48].copy().view("<u2").astype("int32") << 16)  # a bfloat16's float32
        rope = rope_bits.view(torch.float32).double()
        scales = torch.from_numpy(raw[:, 48:64].copy().view("<f4")).double()
    return nope * scales.repeat_interleave(8, dim=1), rope


@pytest.mark.parametrize(
    "operator, new",
    [
        ("ds_v32_sparse_flash_attention_quant_golden", 2),
        ("ds_v32_sparse_attention_antiquant_golden", 2),
        ("sparse_attention_antiquant_fp8_golden", 1),
        ("sparse_attention_antiquant_kv_split_golden", 1),
    ],
)
def test_sparse_mla_attends_to_its_selected_keys_only(operator: str, new: int) -> None:
    i, out = run(operator)
    assert out.dtype == torch.bfloat16 and out.shape == i["q_nope"].shape
    nope, rope = unpack(operator, i)
    for b, length in enumerate(i["act_seq"].tolist()):
        for s in range(new):
            t = new * b + s
            ids = i["topk_idx"][t].tolist()[: min(length - new + 1 + s, 16)]
            assert min(ids) >= 0 and max(ids) < length
            rows = [int(i["block_table"][b, p // 16]) * 16 + p % 16 for p in ids]
            for h in range(4):
                q = torch.cat([i["q_nope"][4 * t + h], i["q_rope"][4 * t + h]])
                expected = attend(q, torch.cat([nope[rows], rope[rows]], -1), nope[rows], 576**-0.5)
                close(out[4 * t + h] / expected.norm(), expected / expected.norm(), BF16)


def test_sparse_mla_ignores_selections_beyond_the_valid_count() -> None:
    operator = "ds_v32_sparse_flash_attention_quant_golden"
    i, out = run(operator)
    junk = i["topk_idx"].clone()
    junk[junk < 0] = 3  # the second sequence is shorter than topk
    assert (junk != i["topk_idx"]).any()
    assert torch.equal(load(operator)[1](**i | {"topk_idx": junk}), out)


def test_packed_sparse_attention_returns_softmax_statistics() -> None:
    i, (out, sm_max, sm_sum) = run("sparse_attention_tnd_golden")
    assert out.dtype == torch.bfloat16 and sm_max.dtype == sm_sum.dtype == torch.float32
    assert sm_max.shape == sm_sum.shape == (1, 4, 4)
    for t, (start, seen) in enumerate([(0, 18), (0, 19), (0, 20), (20, 9)]):
        ids = [start + j for j in i["topk_indices"][t, 0].tolist()[: min(seen, 12)]]
        keys = torch.cat([i["compressed_kv"][ids, 0], i["k_pe"][ids, 0]], -1)
        for h in range(4):
            q = torch.cat([i["q_nope"][t, h], i["q_pe"][t, h]])
            close(out[t, h], attend(q, keys, i["compressed_kv"][ids, 0], 576**-0.5), BF16)
            logits = keys.double() @ q.double() * 576**-0.5
            close(sm_max[0, t, h], logits.max())
            close(sm_sum[0, t, h] * sm_max[0, t, h].exp(), logits.exp().sum(), 1e-4)


def test_gradient_of_packed_sparse_attention_is_autograds() -> None:
    i, grads = run("sparse_attention_grad_tnd_golden")
    assert torch.equal(i["k_nope"], i["value"])
    q, q_pe, latent, k_pe = (i[n].double().requires_grad_() for n in ("q_nope", "q_pe", "k_nope", "k_pe"))
    value = i["value"].double().requires_grad_()
    rows = []
    for t, (start, seen) in enumerate([(0, 18), (0, 19), (0, 20), (20, 9)]):
        ids = [start + j for j in i["topk_indices"][t, 0].tolist()[: min(seen, 12)]]
        logits = (q[t] @ latent[ids, 0].T + q_pe[t] @ k_pe[ids, 0].T) * 576**-0.5
        rows.append(torch.softmax(logits, -1) @ value[ids, 0])
    (torch.stack(rows) * i["d_out"].double()).sum().backward()
    expected = (q.grad, q_pe.grad, latent.grad + value.grad, k_pe.grad, value.grad)
    for actual, wanted in zip(grads, expected, strict=True):
        assert actual.dtype == torch.bfloat16
        close(actual / wanted.abs().max(), wanted / wanted.abs().max(), BF16)
    unselected = set(range(29)) - {int(j) for t in range(3) for j in i["topk_indices"][t, 0] if j >= 0}
    assert (grads[4][sorted(j for j in unselected if j < 20)] == 0).all()


def with_sink(i, t, h, keys, sink):
    return attend(i["q"][t, h], keys, keys, i["q"].shape[-1] ** -0.5, sink=sink[h])


def test_dense_compressed_attention_sees_the_window_and_all_finished_windows() -> None:
    i, out = run("ds_v4_compress_flash_attention_golden")
    assert int(i["seqused_kv"][0]) % 8 == 0  # the last query completes a window that the one before it does not see
    assert out.dtype == torch.bfloat16
    for b, length in enumerate(i["seqused_kv"].tolist()):
        tokens = tokens_of(i["ori_kv"], i["ori_block_table"][b], length)[:, 0]
        for s in range(2):
            position, t = length - 2 + s, 2 * b + s
            keys = [tokens[max(0, position - 15) : position + 1]]
            if (position + 1) // 8:
                keys.append(tokens_of(i["cmp_kv"], i["cmp_block_table"][b], (position + 1) // 8)[:, 0])
            for h in range(4):
                close(out[t, h], with_sink(i, t, h, torch.cat(keys), i["sinks"]), BF16)


def test_sparse_compressed_attention_sees_the_window_and_its_selection() -> None:
    i, out = run("ds_v4_sparse_compress_flash_attention_golden")
    assert i["topk_indices"].min() == -1 and out.dtype == torch.bfloat16
    for t, (b, position) in enumerate([(0, 67), (0, 68), (0, 69), (1, 8)]):
        tokens = tokens_of(i["origin_kv"].unflatten(0, (-1, 8)), i["origin_block_table"][b], position + 1)
        rows = [
            i["compress_kv"].unflatten(0, (-1, 8))[i["cmp_block_table"][b, j // 8], j % 8]
            for j in i["topk_indices"][t].tolist()
            if j >= 0
        ]
        keys = torch.cat([tokens[max(0, position - 15) :], torch.stack(rows)])
        for h in range(2):
            close(out[t, h], with_sink(i, t, h, keys, i["attn_sink"]), BF16)


def test_window_attention_sees_the_last_tokens_only() -> None:
    i, out = run("ds_v4_win_attention_golden")
    queries = [(0, 37), (0, 38), (0, 39), (1, 8), (2, 0), (2, 1)]
    for t, (b, position) in enumerate(queries):
        tokens = tokens_of(i["kv_cache"].unflatten(0, (-1, 8)), i["block_table"][b], position + 1)
        for h in range(2):
            close(out[t, h], with_sink(i, t, h, tokens[max(0, position - 15) :], i["sinks"]), BF16)


def test_a_large_sink_takes_all_the_weight_and_a_very_negative_one_none() -> None:
    i, _ = run("ds_v4_win_attention_golden")
    golden = load("ds_v4_win_attention_golden")[1]
    assert golden(**i | {"sinks": torch.full((2,), 1e4)}).abs().max() == 0
    alone = golden(**i | {"sinks": torch.full((2,), -1e4)})
    close(alone[4], i["kv_cache"][int(i["block_table"][2, 0]) * 8].expand(2, 16))  # one visible key


@pytest.mark.parametrize("dense, mode", [(False, 3), (True, 3), (True, 0)])
def test_mean_probabilities_sum_to_one_and_agree_key_by_key(dense: bool, mode: int) -> None:
    operator = "sparse_flash_mla_softmax_l1_norm_golden"
    _, i = inputs_of(operator, "smoke")
    i["mask_mode"] = mode
    queries = [(0, 20 + s if mode == 3 else 24) for s in range(5)] + [
        (24, 9 + s if mode == 3 else 10) for s in range(2)
    ]
    choices = []
    for t, (start, seen) in enumerate(queries):
        ids = list(range(seen)) if dense else [j for j in i["sparse_indices"][t, 0].tolist() if j >= 0]
        choices.append(ids)
        logits = i["k"][[start + j for j in ids], 0].double() @ i["q"][t].double().T * 16**-0.5  # [keys, G]
        i["softmax_lse"][0, t] = torch.logsumexp(logits, 0).float()
    if dense:
        i["sparse_indices"] = None
    else:
        assert torch.allclose(i["softmax_lse"], inputs_of(operator, "smoke")[1]["softmax_lse"], atol=1e-4)
    out = load(operator)[1](**i)
    assert out.shape == (7, 1, 34 if dense else 12) and out.dtype == torch.float32
    close(out.sum(-1), torch.ones(7, 1), 1e-4)
    for t, (start, _) in enumerate(queries):
        rows = [start + j for j in choices[t]]
        probabilities = torch.softmax(i["k"][rows, 0].double() @ i["q"][t].double().T * 16**-0.5, 0)
        close(out[t, 0, : len(rows)], probabilities.mean(-1), 1e-4)
        assert (out[t, 0, len(rows) :] == 0).all()


def test_mean_probabilities_over_compressed_keys_follow_the_token_positions() -> None:
    """3 keys of 4 tokens and 2 tokens behind them: 14 tokens; the last two queries are at positions 12 and 13."""
    q, k = torch.randn(2, 3, 8), torch.randn(3, 1, 8)
    cu_q, cu_k = torch.tensor([0, 2]), torch.tensor([0, 3])
    lse = torch.logsumexp(torch.einsum("tgd,kd->tgk", q, k[:, 0]), -1)[None]
    golden = load("sparse_flash_mla_softmax_l1_norm_golden")[1]
    out = golden(q, k, lse, None, cu_q, cu_k, scale=1.0, cmp_ratio=4, cmp_residual=2)
    assert (out > 0).all()  # position 12 + 1 covers 3 keys
    early = golden(q, k, lse, None, cu_q, cu_k, scale=1.0, cmp_ratio=4, cmp_residual=0)  # positions 10 and 11
    assert (early[0, 0] > 0).tolist() == [True, True, False] and (early[1, 0] > 0).all()


def test_block_decode_masks_the_tail_of_the_last_block() -> None:
    i, out = run("minimax_m3_msa_sparse_decode_golden")
    assert i["block_ids"][:, -1].tolist() == [5, 5] and i["seq_len"] == 43
    for b in range(2):
        positions = [8 * int(n) + j for n in i["block_ids"][b] for j in range(8) if 8 * int(n) + j < 43]
        assert len(positions) == 27
        for h in range(4):
            k, v = (i[name][b, h // 2].flatten(0, 1)[positions] for name in ("k_blocks", "v_blocks"))
            close(out[b, h], attend(i["q"][b, h], k, v, 0.25), BF16)


def test_block_prefill_is_causal_attention_when_all_blocks_are_selected() -> None:
    i, out = run("msa_main_branch_golden")
    keys, values = (i[name].flatten(0, 1) for name in ("k_blocks", "v_blocks"))
    for t in range(29):
        for h in range(4):
            close(out[t, h], attend(i["q"][t, h], keys[: t + 1, h // 2], values[: t + 1, h // 2], 0.25))


def test_block_prefill_leaves_out_blocks_that_are_not_selected() -> None:
    i, _ = run("msa_main_branch_golden")
    i["q"], i["topk_indices"] = i["q"][24:], torch.tensor([3, 1], dtype=torch.int32)
    i["block_mask"] = i["block_mask"][3:]
    out = load("msa_main_branch_golden")[1](**i)  # one query block, number 0 of this call: not causal to block 3
    rows = [*range(24, 32), *range(8, 16)]
    keys, values = (i[name].flatten(0, 1)[rows] for name in ("k_blocks", "v_blocks"))
    for t in range(5):
        close(out[t, 0], attend(i["q"][t, 0], keys[:, 0], values[:, 0], 0.25))


def test_segments_follow_their_rules() -> None:
    i, out = run("mtgr_ragged_segment_attention_golden")
    rules, start = i["rules"].tolist(), 0
    assert out.dtype == torch.bfloat16 and i["segment_lengths"][1].tolist() == [4, 0, 1, 3]
    for lengths in i["segment_lengths"].tolist():
        segment = [n for n, length in enumerate(lengths) for _ in range(length)]
        for t in range(len(segment)):
            own, rule = segment[t], rules[segment[t]]
            seen = [
                j
                for j, other in enumerate(segment)
                if other < own or (other == own and (rule == 1 or (rule == 0 and j <= t) or (rule == 2 and j == t)))
            ]
            rows = [start + j for j in seen]
            for h in range(2):
                columns = slice(16 * h, 16 * h + 16)
                expected = attend(i["q"][start + t, columns], i["k"][rows, columns], i["v"][rows, columns], 0.25)
                close(out[start + t, columns], expected, BF16)
        start += len(segment)


def test_block_sparse_forward_agrees_row_by_row_with_tails() -> None:
    i, (out, lse) = run("block_sparse_attention_fwd_golden")
    mask = i["block_sparse_mask"]
    assert mask.shape == (1, 4, 4, 3) and not mask.all() and out.dtype == torch.float16 and lse.dtype == torch.float32
    for h in range(4):
        for t in range(50):
            rows = [j for j in range(70) if mask[0, h, t // 16, j // 32]]
            k, v = i["key"][0, h // 2, rows], i["value"][0, h // 2, rows]
            close(out[0, h, t], attend(i["query"][0, h, t], k, v, 0.25), 3e-3)
            close(lse[0, h, t], torch.logsumexp(k.double() @ i["query"][0, h, t].double() * 0.25, 0), 1e-4)


def test_block_sparse_gradient_is_autograds() -> None:
    i, grads = run("block_sparse_attention_bwd_golden")
    q, k, v = (i[n].double().requires_grad_() for n in ("query", "key", "value"))
    visible = torch.kron(i["block_sparse_mask"].double(), torch.ones(1, 1, 16, 32))[..., :50, :70].bool()
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=True)
    (expected * i["dout"].double()).sum().backward()
    for actual, leaf in zip(grads, (q, k, v), strict=True):
        assert actual.dtype == torch.float16
        close(actual / leaf.grad.abs().max(), leaf.grad / leaf.grad.abs().max(), 3e-3)
