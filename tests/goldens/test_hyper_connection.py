"""Hyper-connections stream by stream in float64."""

from __future__ import annotations

import pytest
import torch
from oracles import rms
from support import close, inputs_of, load


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(41)


def run(operator: str, **changes):
    _, inputs = inputs_of(operator, "smoke")
    inputs |= changes
    return inputs, load(operator)[1](**inputs)


def balanced(logits: torch.Tensor, iterations: int, eps: float) -> torch.Tensor:
    """Row and column factors instead of matrices: m = diag(r) exp(x) diag(c), in float64, one matrix [n, n]."""
    weights = logits.double().exp()
    weights = weights / weights.sum(1, keepdim=True) + eps
    rows, columns = torch.ones(len(weights), dtype=torch.float64), torch.ones(len(weights), dtype=torch.float64)
    for step in range(iterations):
        if step:
            rows = rows / (rows * (weights @ columns) + eps)
        columns = columns / (columns * (weights.T @ rows) + eps)
    return torch.diag(rows) @ weights @ torch.diag(columns)


@pytest.mark.parametrize("iterations, eps", [(20, 1e-6), (3, 1e-2), (1, 1e-6)])
def test_sinkhorn_agrees_with_its_row_and_column_factors(iterations: int, eps: float) -> None:
    i, out = run("mhc_sinkhorn_golden", iters=iterations, eps=eps)
    for matrix, logits in zip(out, i["x"], strict=True):
        close(matrix, balanced(logits, iterations, eps))


def test_sinkhorn_gives_rows_and_columns_that_sum_to_one_even_for_extreme_logits() -> None:
    _, out = run("mhc_sinkhorn_golden")
    close(out.sum(-1), torch.ones(16, 4), 1e-2)
    close(out.sum(-2), torch.ones(16, 4), 1e-4)
    assert (out > 0).all()
    assert torch.isfinite(run("mhc_sinkhorn_golden", x=torch.full((1, 4, 4), 1e4))[1]).all()


def test_mhc_pre_reads_the_streams_by_their_gates() -> None:
    i, (h_in, h_post, h_res) = run("mhc_pre_golden")
    assert h_in.dtype == torch.bfloat16 and h_post.dtype == h_res.dtype == torch.float32
    for t in range(4):
        mixed = i["phi"].double() @ rms(i["x"][t].flatten(), eps=1e-6)
        a, b = i["alpha"].double(), i["bias"].double()
        pre = 1 / (1 + (-(a[0] * mixed[:4] + b[:4])).exp())
        close(h_in[t], sum(pre[n] * i["x"][t, n].double() for n in range(4)), 2e-2)
        close(h_post[t], 1 + torch.tanh((a[1] * mixed[4:8] + b[4:8]) / 2))  # twice the sigmoid
        close(h_res[t], (a[2] * mixed[8:] + b[8:]).reshape(4, 4))


def test_mhc_post_mixes_the_streams_and_adds_the_blocks_output() -> None:
    i, out = run("mhc_post_golden")
    for t in range(4):
        for n in range(4):
            wanted = sum(i["h_res"][t, n, m].double() * i["x"][t, m].double() for m in range(4))
            wanted = wanted + i["h_post"][t, n].double() * i["h_out"][t].double()
            close(out[t, n], wanted, 4e-2)
    assert out.dtype == torch.bfloat16


def test_hc_pre_norms_after_the_projection() -> None:
    i, (y, post, comb) = run("ds_v4_hc_pre_golden", eps=1e-3)
    assert y.dtype == torch.bfloat16 and post.dtype == comb.dtype == torch.float32
    for t in range(4):
        x = i["x"][t].double()
        mix = i["hc_fn"].double() @ x / (x.square().mean() + 1e-3).sqrt()
        s, b = i["hc_scale"].double(), i["hc_base"][0].double()
        pre = 1 / (1 + (-(mix[:4] * s[0] + b[:4])).exp()) + 1e-3
        close(y[t], sum(pre[n] * x[32 * n : 32 * n + 32] for n in range(4)), 4e-2)
        close(post[t], 2 / (1 + (-(mix[4:8] * s[1] + b[4:8])).exp()))
        close(comb[t], balanced((mix[8:] * s[2] + b[8:]).reshape(4, 4), 20, 1e-3), 1e-4)
