"""The promises of the factory building blocks, over many drawn sizes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import close, values

from golden import inputs

few = settings(max_examples=25, deadline=None)
sizes = st.integers(1, 12)


@few
@given(batch=sizes, longest=st.integers(1, 60), block_size=st.integers(1, 16), first=st.integers(0, 2))
def test_block_tables_are_distinct_in_range_and_padded(batch: int, longest: int, block_size: int, first: int) -> None:
    lengths = inputs.ragged_lengths(batch, 1, longest, "cpu")
    width = inputs.pages(longest, block_size) + 1
    blocks = first + batch * width
    for pad in (True, False):
        table = inputs.block_table(lengths, block_size, blocks, width, first, pad)
        assert table.shape == (batch, width) and table.dtype == torch.int32
        used = table[table >= 0].tolist()
        assert len(set(used)) == len(used) and all(first <= page < blocks for page in used)
        for row, length in zip(table.tolist(), lengths.tolist(), strict=True):
            needed = -(-length // block_size) if pad else width
            assert min(row[:needed]) >= 0 and set(row[needed:]) <= {-1}


def test_block_tables_say_when_pages_or_columns_are_missing() -> None:
    lengths = torch.tensor([9], dtype=torch.int32)
    with pytest.raises(ValueError, match="needs 3 pages of 4 tokens; the table has 2 columns"):
        inputs.block_table(lengths, 4, 8, 2)
    with pytest.raises(ValueError, match="needs 3 distinct pages; the cache has 2"):
        inputs.block_table(lengths, 4, 2, 3)


def test_slots_follow_the_table() -> None:
    table = torch.tensor([[4, 2], [0, 7]], dtype=torch.int32)
    slots = inputs.slots_of(table, torch.tensor([[0, 3, 9], [1, 8, 15]]), 8)
    assert slots.tolist() == [[32, 35, 17], [1, 56, 63]]


@few
@given(count=sizes, extra=sizes, skipped=st.integers(0, 1))
def test_unique_slots_are_distinct_and_the_skipped_ones_last(count: int, extra: int, skipped: int) -> None:
    slots = inputs.unique_slots(count, count + extra, "cpu", skipped).tolist()
    kept = slots[: count - skipped]
    assert len(slots) == count and len(set(kept)) == len(kept) and all(0 <= s < count + extra for s in kept)
    assert slots[count - skipped :] == [-1] * skipped


def test_lengths_in_their_three_forms() -> None:
    lengths = torch.tensor([3, 0, 2], dtype=torch.int32)
    assert inputs.prefix_sums(lengths).tolist() == [0, 3, 3, 5]
    assert inputs.prefix_sums(lengths, leading_zero=False).tolist() == [3, 3, 5]


@few
@given(total=st.integers(0, 50), groups=st.integers(1, 9), multiple=st.integers(1, 4))
def test_group_counts_sum_up_and_leave_both_ends_empty(total: int, groups: int, multiple: int) -> None:
    counts = inputs.group_counts(total * multiple, groups, "cpu", multiple).tolist()
    assert len(counts) == groups and sum(counts) == total * multiple and all(c % multiple == 0 for c in counts)
    if groups > 2:
        assert counts[0] == counts[-1] == 0


@few
@given(valid=st.lists(st.integers(0, 20), min_size=1, max_size=6), k=sizes)
def test_topk_ids_are_distinct_and_valid_then_padding(valid: list[int], k: int) -> None:
    for row, length in zip(inputs.topk_ids(torch.tensor(valid), k).tolist(), valid, strict=True):
        kept = row[: min(k, length)]
        assert len(row) == k and len(set(kept)) == len(kept) and all(0 <= i < length for i in kept)
        assert set(row[len(kept) :]) <= {-1}


@few
@given(rows=sizes, k=sizes, extra=st.integers(0, 4))
def test_distinct_ids_are_distinct_within_a_row(rows: int, k: int, extra: int) -> None:
    ids = inputs.distinct_ids(rows, k, k + extra + 1, "cpu", low=1)
    assert ids.shape == (rows, k) and all(len(set(row)) == k and min(row) >= 1 for row in ids.tolist())


def test_permutations_targets_and_masks() -> None:
    assert sorted(inputs.permutation(20, "cpu").tolist()) == list(range(20))
    targets = inputs.class_targets(32, 5, "cpu", ignore_index=-100)
    assert (targets == -100).sum() == 4 and targets[targets >= 0].max() < 5
    assert inputs.block_mask((50, 3, 4), 0.0, "cpu").sum(-1).eq(1).all()
    lower = inputs.strictly_lower((2, 5, 5), 1.0, "cpu")
    assert (lower.triu() == 0).all() and (lower.tril(-1) != 0).sum() == 20


def test_rope_tables_are_the_recipes_of_cases_yaml() -> None:
    cos, sin = inputs.rope_tables(torch.arange(6), 8, torch.float32)
    close(cos, values("rope_cos", [6, 8]), 1e-6)
    close(sin, values("rope_sin", [6, 8]), 1e-6)


def test_an_unknown_case_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no case 'big'. Known cases: smoke, p0"):
        inputs.pick_case({"smoke": 1, "p0": 2}, "big")
