"""The speculator's cell, value by value."""

from __future__ import annotations

import torch
from oracles import rms
from support import close, inputs_of, load


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    return (1 + torch.tanh(x / 2)) / 2


def test_the_cell_normalises_its_candidate_and_its_state() -> None:
    torch.manual_seed(59)
    _, i = inputs_of("sum_lstm_golden", "smoke")
    i |= {name: torch.randn(32).half() for name in ("w_cell", "b_cell", "w_state", "b_state")}
    hidden, cell = load("sum_lstm_golden")[1](**i, alpha=0.3, eps_cell=1e-2, eps_state=1e-3)
    fused = i["states_4d"].double() + 0.3 * i["z4_4d"].double()
    f, accept, o, c = (fused[:, 32 * n : 32 * n + 32] for n in range(4))
    fresh = rms(c, i["w_cell"], 1e-2) + i["b_cell"].double()
    wanted = i["prev_cell"].double() * sigmoid(f) + fresh * sigmoid(1.702 * fresh) * sigmoid(accept)
    close(cell, wanted, 4e-3)
    state = rms(wanted, i["w_state"], 1e-3) + i["b_state"].double()
    close(hidden, state * sigmoid(1.702 * state) * sigmoid(o), 4e-3)
    assert hidden.dtype == cell.dtype == torch.float16 and hidden.shape == (4, 32)


def test_a_candidate_of_zeros_is_finite() -> None:
    _, i = inputs_of("sum_lstm_golden", "smoke")
    zeros = {name: torch.zeros_like(x) for name, x in i.items()}
    hidden, cell = load("sum_lstm_golden")[1](**zeros)
    assert (hidden == 0).all() and (cell == 0).all()
