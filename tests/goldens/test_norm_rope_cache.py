"""Normalisation, rotary embedding and KV-cache movement."""

from __future__ import annotations

import pytest
import torch
from support import close, values

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
