"""Indexers against loops over tokens, heads and keys in float64."""

from __future__ import annotations

import pytest
import torch
from oracles import hifloat8, int8, layer, rms, same_steps, tokens_of, turn
from support import close, inputs_of

from golden.lightning_indexer.ds_v4_lightning_indexer_prolog_quant_v4_golden import (
    ds_v4_lightning_indexer_prolog_quant_v4_golden,
)
from golden.lightning_indexer.ds_v32_lightning_indexer_prolog_quant_golden import (
    ds_v32_lightning_indexer_prolog_quant_golden,
)
from golden.lightning_indexer.ds_v32_lightning_indexer_quant_golden import ds_v32_lightning_indexer_quant_golden
from golden.lightning_indexer.lightning_indexer_golden import lightning_indexer_golden
from golden.lightning_indexer.lightning_indexer_prolog_quant_hif8_golden import (
    lightning_indexer_prolog_quant_hif8_golden,
)
from golden.lightning_indexer.lightning_indexer_prolog_quant_mxfp8_golden import (
    lightning_indexer_prolog_quant_mxfp8_golden,
)
from golden.lightning_indexer.minimax_m3_msa_indexer_golden import minimax_m3_msa_indexer_golden


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(23)


def first_turned(x, cos, sin):
    return torch.cat([turn(x[:, :8], cos, sin, "half"), x[:, 8:].double()], -1)


def query_and_key(i, key_norm):
    """Rotated queries [T, 4, 16] and keys [T, 16] before quantisation, head by head."""
    flat = i["q_norm"].double() @ i["w_qb"].double() * i["q_norm_scale"] * i["w_qb_scale"]
    query = [
        first_turned(flat[:, 16 * h : 16 * h + 16], i["cos"], i["sin"]) @ i["hadamard_q"].double() for h in range(4)
    ]
    key = first_turned(key_norm(i["x"].double() @ i["wk"].double()), i["cos"], i["sin"]) @ i["hadamard_k"].double()
    return torch.stack(query, 1), key


def test_v32_prolog_quantises_rotated_queries_and_keys() -> None:
    _, i = inputs_of("ds_v32_lightning_indexer_prolog_quant_golden", "smoke")
    i["ln_gamma"], i["ln_beta"] = torch.randn(16).bfloat16(), torch.randn(16).bfloat16()
    i["cache_index"][2] = -1
    q, q_scale, k_cache, k_scale, weights = ds_v32_lightning_indexer_prolog_quant_golden(**i)
    query, key = query_and_key(i, lambda x: layer(x, i["ln_gamma"], i["ln_beta"], 1e-6))
    steps, scale = int8(query)
    same_steps(q, steps)
    close(q_scale, scale[..., 0], 1e-3)
    steps, scale = int8(key)
    for token, slot in enumerate(i["cache_index"].flatten().tolist()):
        if slot >= 0:
            same_steps(k_cache.flatten(0, 1)[slot, 0], steps[token])
            close(k_scale.flatten(0, 1)[slot, 0], scale[token], 1e-3)
    assert (k_scale != 0).sum() == 3
    close(weights, i["x"].double() @ i["w_proj"].double() / 8, 2e-3)  # sqrt(4 heads * 16)
    assert q_scale.dtype == weights.dtype == torch.float16
    assert k_cache is i["idx_k_cache"] and k_scale is i["idx_k_scale_cache"]


def fp8(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-448, 448).float().to(torch.float8_e4m3fn).double()


@pytest.mark.parametrize("name, largest, grid", [("hif8", 32768, hifloat8), ("mxfp8", 448, fp8)])
def test_8_bit_float_prologs_quantise_rotated_queries_and_keys(name, largest, grid) -> None:
    golden = {
        "hif8": lightning_indexer_prolog_quant_hif8_golden,
        "mxfp8": lightning_indexer_prolog_quant_mxfp8_golden,
    }[name]
    _, i = inputs_of(golden.__name__, "smoke")
    i["gamma"] = torch.randn(16).bfloat16()
    q, q_scale, k_cache, k_scale, weights = golden(**i)
    query, key = query_and_key(
        i, lambda x: rms(x, i["gamma"], 1e-6) if name == "hif8" else layer(x, i["gamma"], None, 1e-6)
    )
    slots = i["cache_index"][0]
    stored = k_cache.float().flatten(0, 1)[slots, 0], k_scale.flatten(0, 1)[slots, 0, 0]
    for (values, scales), wide in (((q.float(), q_scale), query), (stored, key)):
        expected = wide.abs().amax(-1) / largest
        close(scales / expected, torch.ones_like(expected))
        # float32 may round a value beside the middle of two grid points to the other side
        assert (values.double() != grid(wide / expected[..., None])).float().mean() < 0.02
    close(weights, i["x"].double() @ i["w_proj"].double() / 8, 1e-2)
    assert q.dtype == k_cache.dtype == (torch.bfloat16 if name == "hif8" else torch.float8_e4m3fn)
    assert q.shape == (4, 4, 16) and k_cache is i["k_cache"] and k_scale is i["k_scale_cache"]


def test_v4_prolog_turns_the_tail_of_every_head() -> None:
    _, i = inputs_of("ds_v4_lightning_indexer_prolog_quant_v4_golden", "smoke")
    q, q_scale, weights = ds_v4_lightning_indexer_prolog_quant_v4_golden(**i)
    flat = i["qr"].double() @ i["idx_wq_b"].double() * i["qr_scale"] * i["idx_wq_b_scale"].T
    for h in range(4):
        head = flat[:, 24 * h : 24 * h + 24]
        head = torch.cat([head[:, :16], turn(head[:, 16:], i["cos"], i["sin"], "pairs")], -1) @ i["hadamard"].double()
        steps, scale = int8(head)
        same_steps(q[:, h], steps)
        close(q_scale[:, h], scale[:, 0], 1e-4)
    close(weights, i["x"].double() @ i["weights_proj"].double() / 96**0.5, 1e-2)


def test_v32_indexer_picks_the_best_visible_keys_of_ragged_sequences() -> None:
    _, i = inputs_of("ds_v32_lightning_indexer_quant_golden", "smoke")
    chosen = ds_v32_lightning_indexer_quant_golden(**i)
    assert chosen.shape == (6, 12) and chosen.dtype == torch.int32
    for b, length in enumerate(i["act_seq"].tolist()):
        keys = tokens_of(i["key_cache"], i["block_table"][b], length)[:, 0].double()
        scales = tokens_of(i["k_scale"], i["block_table"][b], length)[:, 0].double()
        for s in range(2):
            t, seen = 2 * b + s, length - (1 - s)
            scores = torch.zeros(seen, dtype=torch.float64)
            for h in range(4):
                dots = keys[:seen] @ i["query"][t, h].double()
                scores += i["q_scale"][t, h].double() * i["weight"][t, h].double() * dots.clamp(min=0) / 2048
            scores *= scales[:seen]
            kept = min(seen, 12)
            ids = chosen[t].tolist()
            assert set(ids[kept:]) <= {-1} and len(set(ids[:kept])) == kept and max(ids) < seen
            # Equal scores have no defined order, so the scores are compared, not the ids.
            close(scores[ids[:kept]], scores.sort(descending=True).values[:kept], 1e-6)


def test_indexer_per_head_returns_the_largest_weighted_scores() -> None:
    _, i = inputs_of("lightning_indexer_golden", "smoke")
    chosen = lightning_indexer_golden(**i)
    assert chosen.shape == (1, 16, 4, 8) and chosen.dtype == torch.int32
    for s in range(16):
        for h in range(4):
            dots = i["key"][0, :, h].double() @ i["query"][0, s, h].double()
            scores = i["weights"][0, h, s].double() * dots.clamp(min=0)
            ids = chosen[0, s, h].tolist()
            assert len(set(ids)) == 8
            close(scores[ids], scores.sort(descending=True).values[:8], 1e-6)


def test_block_indexer_keeps_the_last_block_and_the_best_others() -> None:
    _, i = inputs_of("minimax_m3_msa_indexer_golden", "smoke")
    worth = [
        max(float(q.double() @ k.double()) for q in i["idx_q"] for k in i["idx_k"][8 * b : 8 * b + 8])
        for b in range(20)
    ]
    expected = [*sorted(range(19), key=lambda b: -worth[b])[:15], 19]
    assert minimax_m3_msa_indexer_golden(**i).tolist() == expected
    expected = [*sorted(range(17), key=lambda b: -worth[b])[:2], 17, 18, 19]
    assert minimax_m3_msa_indexer_golden(**i, topk_blocks=5, local_blocks=3).tolist() == expected


def test_block_indexer_takes_all_when_there_are_few() -> None:
    out = minimax_m3_msa_indexer_golden(torch.randn(4, 8), torch.randn(16 * 4, 8), block=4)
    assert out.tolist() == list(range(16)) and out.dtype == torch.int32
