"""The gated memory lookup token by token in float64, and its gradient against autograd."""

from __future__ import annotations

import pytest
import torch
from oracles import rms
from support import close, inputs_of, load

forward, backward = (load(f"engram_{way}_golden")[1] for way in ("fwd", "bwd"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(47)


def with_gains(i: dict) -> dict:
    return i | {name: 1 + torch.randn(2, 32) * 0.2 for name in ("gamma_k", "gamma_h")}


def lookup(embedding, hidden, w_k, w_v, gamma_k, gamma_h):
    """out, scores and gates of every token and group; differentiable."""
    out, scores, gates = [], [], []
    for g in range(2):
        key = rms(embedding @ w_k[g], gamma_k[g], 1e-6)
        score = (key * rms(hidden[:, :, g], gamma_h[g], 1e-6)).sum(-1) / 32**0.5
        root = torch.where(score.abs() > 1e-6, score.abs(), 1e-6) ** 0.5
        gate = 1 / (1 + (-torch.sign(score) * root).exp())
        scores.append(score)
        gates.append(gate)
        out.append(gate[..., None] * (embedding @ w_v))
    return tuple(torch.stack(x, 2) for x in (out, scores, gates))


def test_lookup_agrees_group_by_group() -> None:
    i = with_gains(inputs_of("engram_fwd_golden", "smoke")[1])
    out, scores, gates, keys, values = forward(**i)
    wanted, wanted_scores, wanted_gates = lookup(*(x.double() for x in i.values()))
    close(out, wanted, 2e-2)
    close(scores, wanted_scores, 1e-4)
    close(gates, wanted_gates, 1e-4)
    for g in range(2):
        close(keys[:, :, g], i["embedding"].double() @ i["w_k"][g].double(), 2e-2)
    close(values, i["embedding"].double() @ i["w_v"].double(), 2e-2)
    assert out.dtype == keys.dtype == values.dtype == torch.bfloat16 and scores.dtype == torch.float32


def test_an_embedding_of_zeros_is_gated_by_a_half_of_nothing() -> None:
    i = with_gains(inputs_of("engram_fwd_golden", "smoke")[1])
    out, scores, gates, _, _ = forward(**i | {"embedding": torch.zeros(2, 6, 16)})
    assert (out == 0).all() and (scores == 0).all() and (gates == 0.5).all()


def test_gradient_is_autograds() -> None:
    names = ("embedding", "hidden", "w_k", "w_v", "gamma_k", "gamma_h")
    i = with_gains({name: x.float() for name, x in inputs_of("engram_fwd_golden", "smoke")[1].items()})
    _, scores, gates, keys, values = forward(**i)
    grad_out = torch.randn(2, 6, 2, 32)
    grads = backward(grad_out, *(i[n] for n in names), scores, gates, keys, values)
    leaves = [i[n].double().requires_grad_() for n in names]
    (lookup(*leaves)[0] * grad_out.double()).sum().backward()
    for actual, leaf in zip(grads, leaves, strict=True):
        close(actual / leaf.grad.abs().max(), leaf.grad / leaf.grad.abs().max(), 1e-4)


def test_below_the_floor_no_gradient_goes_through_the_gate() -> None:
    _, i = inputs_of("engram_bwd_golden", "smoke")
    i |= {"scores": torch.full_like(i["scores"], 1e-7), "gates": torch.full_like(i["gates"], 0.5)}
    d_embedding, d_hidden, d_wk, d_wv, _, _ = backward(**i)
    assert (d_hidden == 0).all() and (d_wk == 0).all()
    assert d_embedding.abs().max() > 0 and d_wv.abs().max() > 0 and d_wv.dtype == torch.bfloat16
