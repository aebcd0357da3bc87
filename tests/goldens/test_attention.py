"""attention_golden and softmax_amax_golden against torch's own operators and a loop over single queries in float64."""

from __future__ import annotations

import pytest
import torch
from support import close

from golden.attention.attention_golden import attention_golden
from golden.attention.softmax_amax_golden import softmax_amax_golden


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


def one_query_at_a_time(q, k, v, scale, causal):
    """Every query on its own, exponentials summed in float64."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    for index in range(q.shape[-2]):
        seen = k.shape[-2] - (q.shape[-2] - 1 - index if causal else 0)
        keys, values = k[..., :seen, :].double(), v[..., :seen, :].double()
        logits = (keys * q[..., index, None, :].double()).sum(-1) * scale
        weights = (logits - logits.amax(-1, keepdim=True)).exp()
        out[..., index, :] = (weights[..., None] * values).sum(-2) / weights.sum(-1, keepdim=True)
    return out


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 1e-2)])
def test_agrees_with_torchs_own_attention(dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = (draw(2, 3, 17, 16, dtype=dtype) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    out = attention_golden(q, k, v)
    assert out.dtype == dtype and out.shape == q.shape
    torch.testing.assert_close(out.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("causal", [False, True])
def test_agrees_with_a_loop_over_queries_when_there_are_more_keys_than_queries(causal: bool) -> None:
    q, k, v = draw(1, 2, 5, 8), draw(1, 2, 12, 8), draw(1, 2, 12, 8)
    out = attention_golden(q, k, v, scale=0.7, causal=causal)
    torch.testing.assert_close(out.double(), one_query_at_a_time(q, k, v, 0.7, causal), atol=1e-5, rtol=1e-5)


def test_a_causal_query_with_one_visible_key_returns_its_value() -> None:
    q, k, v = draw(1, 1, 4, 8), draw(1, 1, 4, 8), draw(1, 1, 4, 8)
    torch.testing.assert_close(attention_golden(q, k, v, causal=True)[..., 0, :], v[..., 0, :])


def test_extreme_logits_pick_one_value_and_stay_finite() -> None:
    q = torch.full((1, 1, 1, 4), 1e4)
    k = torch.stack([torch.full((4,), 1e4), torch.full((4,), -1e4)])[None, None]
    v = draw(1, 1, 2, 4)
    torch.testing.assert_close(attention_golden(q, k, v), v[..., :1, :])


def test_a_repeated_call_gives_the_same_bits() -> None:
    q, k, v = (draw(1, 2, 9, 8, dtype=torch.bfloat16) for _ in range(3))
    assert torch.equal(attention_golden(q, k, v), attention_golden(q, k, v))


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.bfloat16, 4e-3)])
def test_softmax_with_amax_is_the_softmax(dtype: torch.dtype, tolerance: float) -> None:
    x = draw(3, 5, 33, dtype=dtype)
    out = softmax_amax_golden(x)
    assert out.dtype == dtype
    close(out, torch.softmax(x.double(), -1), tolerance)


def test_softmax_with_amax_survives_logits_whose_exponentials_overflow() -> None:
    out = softmax_amax_golden(torch.tensor([[1e30, 0.0], [-1e30, -1e30]]))
    assert out.tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_softmax_with_amax_reduces_by_a_maximum_of_its_own() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        softmax_amax_golden(draw(4, 4))
    assert [event.count for event in profile.key_averages() if event.key == "aten::amax"] == [1]
