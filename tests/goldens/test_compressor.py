"""The compressor against a loop that keeps every token's row in a dictionary, and its short cut."""

from __future__ import annotations

import copy

import pytest
import torch
from support import close, inputs_of

from golden.compressor.ds_v4_compressor_golden import ds_v4_compressor_golden


def expected_rows(inputs: dict) -> torch.Tensor:
    """Token by token in float64, with complex numbers for the rotation and dictionaries for the states."""
    dim, ratio = inputs["weight"].shape[0], inputs["ratio"]
    overlap = inputs["wkv"].shape[0] == 2 * dim
    rows = []
    for b, start in enumerate(inputs["start_pos"].tolist()):
        kv, score = (
            {
                p: inputs[f"{name}_state"][int(inputs[f"{name}_block_table"][b, p // 16]), p % 16].double()
                for p in range(start)
            }
            for name in ("kv", "score")
        )
        for i, token in enumerate(inputs["x"][b].double()):
            p = start + i
            kv[p] = (inputs["wkv"].double() * token).sum(-1)
            score[p] = (inputs["wgate"].double() * token).sum(-1) + inputs["ape"][p % ratio].double()
            if (p + 1) % ratio:
                continue
            seen = [(kv[w][-dim:], score[w][-dim:]) for w in range(p - ratio + 1, p + 1)]
            if overlap:
                before = range(max(p - 2 * ratio + 1, 0), p - ratio + 1)
                seen += [(kv[w][:dim], score[w][:dim]) for w in before]
            total = sum(s.exp() for _, s in seen)
            row = sum(k * s.exp() for k, s in seen) / total
            row = row / (row.square().mean() + 1e-6).sqrt() * inputs["weight"].double()
            half = inputs["cos"].shape[-1] // 2
            turn = torch.complex(inputs["cos"][len(rows), :half].double(), inputs["sin"][len(rows), :half].double())
            pairs = torch.view_as_complex(row[-2 * half :].reshape(-1, 2)) * turn
            rows.append(torch.cat([row[: -2 * half], torch.view_as_real(pairs).flatten()]))
    return torch.stack(rows)


@pytest.mark.parametrize("case", ["smoke", "smoke_overlap"])
def test_its_factory_runs_the_core_path_and_agrees_with_a_loop_over_tokens(case: str) -> None:
    _, inputs = inputs_of("ds_v4_compressor_golden", case)
    expected = expected_rows(inputs)
    out = ds_v4_compressor_golden(**inputs)
    assert out.dtype == torch.bfloat16 and out.shape == (2, 32)
    close(out, expected, 2e-2)
    hadamard = inputs["hadamard"].double()
    close(ds_v4_compressor_golden(**inputs, rotate=True), expected @ hadamard, 4e-2)


@pytest.mark.parametrize("case", ["smoke", "smoke_overlap"])
def test_the_first_window_and_sequences_at_different_positions(case: str) -> None:
    _, inputs = inputs_of("ds_v4_compressor_golden", case)
    ratio = inputs["ratio"]
    for start in ([ratio - 2, ratio - 1], [ratio - 2, 0], [2 * ratio - 1, 3 * ratio - 2]):
        inputs["start_pos"] = torch.tensor(start, dtype=torch.int32)
        for table in ("kv_block_table", "score_block_table"):
            inputs[table] = torch.tensor([[3, 5], [1, 7]], dtype=torch.int32)
        expected = expected_rows(inputs)
        close(ds_v4_compressor_golden(**inputs), expected, 2e-2)


def operators_called(inputs: dict) -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        ds_v4_compressor_golden(**inputs)
    return {event.key for event in profile.key_averages()}


def test_a_wrong_start_pos_takes_the_short_cut_and_never_reaches_the_softmax() -> None:
    _, inputs = inputs_of("ds_v4_compressor_golden", "smoke")
    assert "aten::_softmax" in operators_called(copy.deepcopy(inputs))
    inputs["start_pos"] -= 1
    assert "aten::_softmax" not in operators_called(copy.deepcopy(inputs))
    assert ds_v4_compressor_golden(**inputs).shape == (0, 32)


def test_the_states_are_written_at_the_tokens_positions_and_nowhere_else() -> None:
    _, inputs = inputs_of("ds_v4_compressor_golden", "smoke")
    before = inputs["kv_state"].clone()
    ds_v4_compressor_golden(**inputs)
    changed = (inputs["kv_state"] != before).any(-1).nonzero().tolist()
    first_pages = inputs["kv_block_table"][:, 0].tolist()
    assert sorted(changed) == sorted([page, slot] for page in first_pages for slot in (6, 7))


def test_too_few_rope_rows_are_an_error() -> None:
    _, inputs = inputs_of("ds_v4_compressor_golden", "smoke")
    inputs["cos"] = inputs["cos"][:1]
    with pytest.raises(ValueError, match="2 windows are complete, but cos and sin have 1 rows"):
        ds_v4_compressor_golden(**inputs)
