"""Dense and paged attention against a loop over sequences and heads in float64."""

from __future__ import annotations

import pytest
import torch
from oracles import attend, tokens_of
from support import close, inputs_of

from golden.dense_attention.glm_paged_attention_golden import glm_paged_attention_golden


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
