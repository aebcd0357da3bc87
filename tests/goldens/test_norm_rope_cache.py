"""Normalisation, rotary embedding and KV-cache movement."""

from __future__ import annotations

import pytest
import torch
from oracles import rms, same_steps, turn
from support import close, inputs_of, load, values

from golden.norm_rope_cache.interleave_rope_golden import interleave_rope_golden
from golden.norm_rope_cache.rms_norm_golden import rms_norm_golden


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)


def as_complex(cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The rotation of each pair as a complex number; a rotary embedding is a product of these."""
    half = cos.shape[-1] // 2
    return torch.complex(cos[..., :half].double(), sin[..., :half].double())


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_rms_norm_agrees_with_torchs_own(dtype: torch.dtype, tolerance: float) -> None:
    x, weight = (torch.randn(2, 3, 64) * 5).to(dtype), torch.randn(64).to(dtype)
    out = rms_norm_golden(x, weight, eps=1e-3)
    assert out.dtype == dtype
    close(out, torch.nn.functional.rms_norm(x.double(), (64,), weight.double(), eps=1e-3), tolerance)


def test_rms_norm_of_zeros_is_zero_and_large_half_values_do_not_overflow() -> None:
    assert rms_norm_golden(torch.zeros(1, 8), torch.ones(8)).tolist() == [[0.0] * 8]
    assert rms_norm_golden(torch.full((1, 8), 6e4).half(), torch.ones(8).half()).tolist() == [[1.0] * 8]


def test_interleaved_rope_multiplies_pairs_as_complex_numbers_and_deinterleaves() -> None:
    x = torch.randn(2, 3, 5, 8)
    cos, sin = values("rope_cos", [1, 1, 5, 8]), values("rope_sin", [1, 1, 5, 8])
    turned = torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * as_complex(cos, sin)
    close(interleave_rope_golden(x, cos, sin), torch.cat([turned.real, turned.imag], dim=-1))


def test_rope_at_position_zero_only_rearranges() -> None:
    x = torch.arange(8.0).reshape(1, 1, 1, 8).bfloat16()
    out = interleave_rope_golden(x, torch.ones(1, 1, 1, 8), torch.zeros(1, 1, 1, 8))
    assert out.dtype == torch.bfloat16 and out.flatten().tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


def test_rope_keeps_the_length_of_every_vector() -> None:
    x = torch.randn(1, 2, 16, 64)
    out = interleave_rope_golden(x, values("rope_cos", [16, 64]), values("rope_sin", [16, 64]))
    close(out.norm(dim=-1), x.norm(dim=-1))


BF16 = 2e-2


def run(operator: str, **changes):
    _, inputs = inputs_of(operator, "smoke")
    inputs |= changes
    return inputs, load(operator)[1](**inputs)


def angles(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of random angles; the last dim is two equal halves."""
    angle = torch.rand(*shape[:-1], shape[-1] // 2) * 6
    return tuple(torch.cat([table, table], -1).to(dtype) for table in (angle.cos(), angle.sin()))


@pytest.mark.parametrize("dim", [1, -1])
def test_channel_norm_agrees_with_the_vector_norm(dim: int) -> None:
    i, out = run("rms_norm_channel_golden", dim=dim, eps=0.1)
    close(out, rms(i["x"].movedim(dim, -1), eps=0.1).movedim(-1, dim))


def test_head_norm_comes_before_the_rotation() -> None:
    cos, sin = angles(6, 32)
    i, out = run("rms_norm_rope_golden", cos=cos, sin=sin, weight=torch.randn(32).bfloat16())
    for n in range(4):
        close(out[:, n], turn(rms(i["x"][:, n], i["weight"], 1e-6), cos, sin, "half"), 4e-2)
    assert out.dtype == torch.bfloat16


def test_add_norm_overwrites_both_arguments() -> None:
    _, before = inputs_of("inplace_add_rms_norm_golden", "smoke")
    gamma = torch.randn(64).bfloat16()
    i, (y, summed, rstd) = run("inplace_add_rms_norm_golden", gamma=gamma)
    assert y is i["x1"] and summed is i["x2"] and rstd.dtype == torch.float32
    wanted = before["x1"].double() + before["x2"].double()
    close(summed, wanted, BF16)
    close(y, rms(wanted, gamma, 1e-6), 3e-2)
    close(rstd[..., 0], (wanted.square().mean(-1) + 1e-6) ** -0.5, 1e-4)


def test_mrope_takes_each_section_from_its_axis() -> None:
    cos, sin = angles(3, 1, 6, 32)
    i, (q, k) = run("mrope_golden", cos=cos.half(), sin=sin.half())
    axis = [0] * 4 + [1] * 6 + [2] * 6  # of the 16 pairs
    for pair in range(16):
        c, s = (t[axis[pair], 0, :, pair].half().double() for t in (cos, sin))
        for actual, x in ((q, i["q"]), (k, i["k"])):
            first, second = x[0, :, :, pair].double(), x[0, :, :, pair + 16].double()
            close(actual[0, :, :, pair], first * c - second * s, 4e-3)
            close(actual[0, :, :, pair + 16], second * c + first * s, 4e-3)
    assert q.dtype == torch.float16 and k.shape == i["k"].shape


def test_vision_rope_turns_queries_and_keys_alike() -> None:
    cos, sin = angles(6, 32)
    i, (q, k) = run("vision_rope_golden", cos=cos, sin=sin)
    for n in range(4):
        close(q[:, n], turn(i["q"][:, n], cos, sin, "half"), 4e-3)
        close(k[:, n], turn(i["k"][:, n], cos, sin, "half"), 4e-3)
    assert q.dtype == k.dtype == torch.float16


def test_fused_cache_update_writes_bytes_in_the_nz_layout() -> None:
    _, i = inputs_of("qkv_rms_norm_rope_cache_golden", "smoke")
    i |= {"q_gamma": torch.randn(32).bfloat16(), "k_gamma": torch.randn(32).bfloat16()}
    i["index"][4] = -1
    q_out, k_cache, v_cache = load("qkv_rms_norm_rope_cache_golden")[1](**i)
    assert q_out is i["q_out"] and k_cache is i["k_cache"] and v_cache is i["v_cache"]
    heads = i["qkv"].unflatten(-1, (8, 32))
    saturated = False
    for t in range(6):
        row = (i["cos"][t], i["sin"][t])
        for h in range(4):
            wanted = turn(rms(heads[t, h], i["q_gamma"], 1e-6), *row, "half")
            close(q_out[t, 32 * h : 32 * h + 32], wanted, 4e-2)
        slot = int(i["index"][t])
        if slot < 0:
            continue
        for h in range(2):
            key = turn(rms(heads[t, 4 + h], i["k_gamma"], 1e-6), *row, "half") / i["k_scale"][h].double()
            value = heads[t, 6 + h].double() / i["v_scale"][h].double()
            saturated |= bool((key.abs() > 128).any())
            for cache, steps in ((k_cache, key), (v_cache, value)):
                stored = [int(cache[slot // 8, (32 * h + d) // 32, slot % 8, (32 * h + d) % 32]) for d in range(32)]
                same_steps(torch.tensor(stored, dtype=torch.int8), steps.round().clamp(-128, 127))
    used = (v_cache != 0).any(-1).any(1).flatten().nonzero().flatten().tolist()
    assert saturated and used == sorted(s for s in i["index"].tolist() if s >= 0)


def test_gather_copies_the_part_behind_the_offset() -> None:
    i, (key, value) = run("gather_pa_kv_cache_golden")
    assert i["seq_lens"].tolist() == [0, 5, 6, 6, 26]  # the third sequence is empty
    row = 0
    for b, count in enumerate((5, 1, 0, 20)):
        for j in range(count):
            p = int(i["seq_offset"][b]) + j
            page = int(i["block_tables"][b, p // 8])
            assert torch.equal(key[row], i["key_cache"][page, p % 8])
            assert torch.equal(value[row], i["value_cache"][page, p % 8])
            row += 1
    assert len(key) == len(value) == row


def test_scatter_writes_every_row_to_its_slot_and_skips_the_rest() -> None:
    i, (keys, values) = run("scatter_pa_kv_cache_golden")
    assert keys is i["key_cache"] and values is i["value_cache"]
    wanted = torch.zeros_like(keys), torch.zeros_like(values)
    for t, slot in enumerate(i["slot_mapping"].tolist()):
        if slot >= 0:
            wanted[0][slot // 8, slot % 8], wanted[1][slot // 8, slot % 8] = i["key"][t], i["value"][t]
    assert i["slot_mapping"][-1] == -1
    assert torch.equal(keys, wanted[0]) and torch.equal(values, wanted[1])


def test_a_gather_after_a_scatter_brings_the_rows_back() -> None:
    keys, cache = torch.randn(10, 1, 4), torch.zeros(3, 8, 1, 4)
    table = torch.tensor([[2, 0]], dtype=torch.int32)
    slots = torch.tensor([16 + p if p < 8 else p - 8 for p in range(10)])
    load("scatter_pa_kv_cache_golden")[1](keys, keys, cache, cache.clone(), slots)
    out, _ = load("gather_pa_kv_cache_golden")[1](cache, cache, table, torch.tensor([0, 10]), torch.tensor([0]))
    assert torch.equal(out, keys)
