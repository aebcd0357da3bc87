"""The gated delta rule in all its forms against one recurrence per head in float64, written with transition
matrices."""

from __future__ import annotations

import pytest
import torch
from support import close, inputs_of, load

from golden.linear_attention import delta_rule

BF16 = 2e-2


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(31)


def recurrence(q, k, v, g, beta, state, scale):
    """o [T, V] and the last state of one head: S <- (I - beta k k^T) diag(exp g) S + beta k v^T, float64.

    q, k, g [T, K]; v [T, V]; beta [T]; state [K, V].
    """
    identity, outputs = torch.eye(k.shape[-1], dtype=torch.float64), []
    for t in range(len(q)):
        transition = (identity - beta[t] * torch.outer(k[t], k[t])) @ torch.diag(g[t].exp())
        state = transition @ state + beta[t] * torch.outer(k[t], v[t])
        outputs.append(state.T @ q[t] * scale)
    return torch.stack(outputs), state


def unit(x):
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def expected(i, state, scale, normalise, transposed=False):
    """o [B, T, HV, V] and the final states [B, HV, K, V] by the recurrence, head by head."""
    q, k, v, g, beta = (i[n].double() for n in ("q", "k", "v", "g", "beta"))
    g = g if g.dim() == 4 else g[..., None].expand(*g.shape, k.shape[-1])
    q, k = (unit(x) if normalise else x for x in (q, k))
    state = (state.transpose(-2, -1) if transposed else state).double()
    out, final = torch.zeros(v.shape, dtype=torch.float64), torch.zeros(state.shape, dtype=torch.float64)
    share = v.shape[2] // q.shape[2]
    for b in range(len(q)):
        for h in range(v.shape[2]):
            head = (q[b, :, h // share], k[b, :, h // share], v[b, :, h], g[b, :, h], beta[b, :, h], state[b, h])
            out[b, :, h], final[b, h] = recurrence(*head, scale)
    return out, final.transpose(-2, -1) if transposed else final


def run(operator: str, **changes):
    _, inputs = inputs_of(operator, "smoke")
    inputs |= changes
    return inputs, load(operator)[1](**inputs)


@pytest.mark.parametrize("operator", ["recurrent_gated_delta_rule_golden", "gated_delta_rule_27b_golden"])
def test_one_token_updates_the_state_in_place(operator: str) -> None:
    _, before = inputs_of(operator, "smoke")
    wanted, final = expected(before, before["initial_state"], 0.25, normalise=True)
    i, (out, state) = run(operator)
    assert out.dtype == state.dtype == torch.bfloat16 and state is i["initial_state"]
    close(out, wanted, BF16)
    close(state, final, BF16)


def test_the_recurrent_form_runs_over_several_tokens_and_without_the_norm() -> None:
    operator = "recurrent_gated_delta_rule_golden"
    shape = (1, 5, 2, 8)
    i = {n: delta_rule.l2norm(torch.randn(shape)) for n in ("q", "k")}
    i |= {"v": torch.randn(shape), "g": -torch.rand(1, 5, 2), "beta": torch.rand(1, 5, 2)}
    i |= {"initial_state": torch.randn(1, 2, 8, 8)}
    wanted, final = expected(i, i["initial_state"].clone(), 0.7, normalise=False)
    out, state = load(operator)[1](**i, scale=0.7, use_qk_l2norm=False)
    close(out, wanted)
    close(state, final)


def test_prefill_from_an_empty_state() -> None:
    i, (out, state) = run("chunk_gated_delta_rule_prefill_golden")
    wanted, final = expected(i, torch.zeros(2, 4, 16, 16), 0.25, normalise=True)
    close(out, wanted, BF16)
    close(state, final, 1e-4)
    assert out.dtype == torch.bfloat16 and state.dtype == torch.float32


@pytest.mark.parametrize("chunk", [1, 3, 4, 16])
def test_chunks_of_any_size_give_the_same_result(chunk: int) -> None:
    i, (out, state) = run("chunk_gated_delta_rule_prefill_golden")
    other, other_state = load("chunk_gated_delta_rule_prefill_golden")[1](**i, chunk=chunk)
    close(other, out, 1e-2)
    close(other_state, state, 1e-4)


def test_packed_sequences_keep_their_states_apart() -> None:
    i, (out, final) = run("chunked_gdr_golden")
    assert i["chunk"] == 8 and i["act_seq_len"].tolist() == [0, 13, 21]
    for n, rows in enumerate([slice(0, 13), slice(13, 21)]):
        one = {"q": i["query"], "k": i["key"], "v": i["value"], "g": i["gate"], "beta": i["beta"]}
        one = {name: x[rows][None] for name, x in one.items()}
        wanted, state = expected(one, i["states"][n : n + 1], 1.0, normalise=True)
        close(out[rows], wanted[0], 1e-4)
        close(final[n], state[0], 1e-4)


def test_gdr_forward_returns_the_inverse_of_every_chunk() -> None:
    i, (out, a, state) = run("gdr_fwd_golden")
    wanted, final = expected(i, i["initial_state"], 0.25, normalise=False)
    close(out, wanted, BF16)
    close(state, final, 1e-4)
    k, beta, g = i["k"].double(), i["beta"].double(), i["g"].double()
    for chunk in range(3):
        rows = slice(8 * chunk, 8 * chunk + 8)
        for h in range(4):
            matrix = torch.eye(8, dtype=torch.float64)
            for r in range(8):
                for c in range(r):
                    t, s = 8 * chunk + r, 8 * chunk + c
                    decay = g[1, s + 1 : t + 1, h].sum().exp()
                    matrix[r, c] = beta[1, t, h] * (k[1, t, h // 2] @ k[1, s, h // 2]) * decay
            close(a[1, rows, h], torch.linalg.inv(matrix), 1e-5)
    assert a.shape == (2, 24, 4, 8) and a.dtype == state.dtype == torch.float32


def test_gdr_backward_is_the_recurrences_gradient() -> None:
    i, grads = run("gdr_bwd_golden")
    leaves = {n: i[n].double().requires_grad_() for n in ("q", "k", "v", "beta", "g", "initial_state")}
    total = 0.0
    for b in range(2):
        for h in range(4):
            q, k = (leaves[n][b, :, h // 2] for n in ("q", "k"))
            g = leaves["g"][b, :, h, None].expand(-1, 16)
            head = (q, k, leaves["v"][b, :, h], g, leaves["beta"][b, :, h], leaves["initial_state"][b, h])
            out, state = recurrence(*head, 0.25)
            total = total + (out * i["do"][b, :, h].double()).sum() + (state * i["dht"][b, h].double()).sum()
    total.backward()
    for actual, (name, leaf) in zip(grads, leaves.items(), strict=True):
        tolerance = BF16 if name in ("q", "k", "v") else 1e-4
        close(actual / leaf.grad.abs().max(), leaf.grad / leaf.grad.abs().max(), tolerance)
    dq, _, dv, dbeta, dg, dh0 = grads
    assert dq.dtype == dv.dtype == torch.bfloat16 and dbeta.dtype == dg.dtype == dh0.dtype == torch.float32


def test_kda_decays_every_channel_on_its_own() -> None:
    i, (out, state) = run("kda_golden")
    assert (i["g"] > 0).any() and (i["g"] < 0).any()
    wanted, final = expected(i, i["initial_state"], 0.25, normalise=False)
    close(out, wanted, 1e-4)
    close(state, final, 1e-4)


@pytest.mark.parametrize("operator", ["kda_chunk_golden", "chunk_kda_golden"])
def test_kda_prefill_keeps_its_state_as_values_by_keys(operator: str) -> None:
    i, (out, state) = run(operator, chunk=8)
    assert i["q"].shape[1] in (70, 24)
    wanted, final = expected(i, i["initial_state"], 0.25, normalise=True, transposed=True)
    close(out, wanted, BF16)
    close(state, final, 1e-4)
    assert out.dtype == torch.bfloat16 and state.dtype == torch.float32


def test_chunk_kda_without_the_norm() -> None:
    _, i = inputs_of("chunk_kda_golden", "smoke")
    i |= {n: delta_rule.l2norm(i[n]) for n in ("q", "k")}
    out, _ = load("chunk_kda_golden")[1](**i, use_qk_l2norm=False)
    wanted, _ = expected(i, i["initial_state"], 0.25, normalise=False, transposed=True)
    close(out, wanted, 1e-4)


def test_the_strongest_gates_stay_finite_over_a_long_chunk() -> None:
    _, i = inputs_of("kda_chunk_golden", "smoke")
    i["g"] = torch.full_like(i["g"], -5.0)  # exp(-G) reaches e^350 within a chunk
    out, state = load("kda_chunk_golden")[1](**i)
    assert torch.isfinite(out).all() and torch.isfinite(state).all()
    wanted, _ = expected(i, i["initial_state"], 0.25, normalise=True, transposed=True)
    close(out, wanted, BF16)


@pytest.mark.parametrize("with_gate", [False, True])
def test_kda_decode_updates_its_state_in_place(with_gate: bool) -> None:
    operator = "kda_fused_decode_golden"
    _, before = inputs_of(operator, "smoke")
    extra = {"a_log": torch.randn(4), "dt_bias": torch.randn(4, 16)} if with_gate else {}
    if with_gate:
        raw = before["g"].double() + extra["dt_bias"].double()
        before["g"] = -extra["a_log"].double().exp()[:, None] * (1 + raw.exp()).log()
    wanted, final = expected(before, before["state"], 0.25, normalise=True, transposed=True)
    i, (out, state) = run(operator, **extra)
    assert state is i["state"] and out.dtype == torch.bfloat16
    close(out, wanted, BF16)
    close(state, final, 1e-4)


def test_kda_decode_wants_both_parts_of_the_gate() -> None:
    with pytest.raises(ValueError, match="belong together"):
        run("kda_fused_decode_golden", a_log=torch.randn(4))


def test_recurrent_kda_reads_the_accepted_slot_and_checkpoints_every_token() -> None:
    operator = "fused_recurrent_kda_golden"
    _, before = inputs_of(operator, "smoke")
    i, (out, pool) = run(operator)
    slots, accepted = i["ssm_state_indices"].tolist(), i["num_accepted_tokens"].tolist()
    assert pool is i["state_pool"] and (pool[0] == 0).all()
    touched = set()
    for n, (start, length) in enumerate([(0, 1), (1, 3), (4, 2)]):
        state = before["state_pool"][slots[n][accepted[n] - 1]][None]
        for t in range(length):
            step = {name: i[name][:, start + t : start + t + 1] for name in ("q", "k", "v", "g", "beta")}
            wanted, state = expected(step, state, 0.25, normalise=True, transposed=True)
            close(out[:, start + t], wanted[:, 0], BF16)
            close(pool[slots[n][t]], state[0], 1e-4)
            touched.add(slots[n][t])
    for slot in set(range(10)) - touched:
        assert torch.equal(pool[slot], before["state_pool"][slot])


def test_recurrent_kda_with_one_slot_each_keeps_the_last_state_and_spares_the_null_slot() -> None:
    _, i = inputs_of("fused_recurrent_kda_golden", "smoke")
    i |= {"ssm_state_indices": torch.tensor([2, 0, 4]), "num_accepted_tokens": torch.ones(3, dtype=torch.int32)}
    start = i["state_pool"].clone()
    load("fused_recurrent_kda_golden")[1](**i)
    step = {name: i[name][:, 4:6] for name in ("q", "k", "v", "g", "beta")}
    close(i["state_pool"][4], expected(step, start[4][None], 0.25, normalise=True, transposed=True)[1][0], 1e-4)
    assert (i["state_pool"][0] == 0).all() and torch.equal(i["state_pool"][1], start[1])


def test_the_first_stage_sums_gates_and_decays_interactions() -> None:
    i, (gates, interaction) = run("kda_gate_kkt_golden")
    k, g, beta = i["k"].double(), i["g"].double(), i["beta"].double()
    for h in range(2):
        for t in range(32):
            first = 16 * (t // 16)
            close(gates[0, t, h], g[0, first : t + 1, h].sum(0))
            for s in range(first, first + 16):
                decay = g[0, s + 1 : t + 1, h].sum(0).exp()
                wanted = beta[0, t, h] * (k[0, t, h] * k[0, s, h] * decay).sum() if s < t else torch.zeros(())
                close(interaction[0, t, h, s - first], wanted)


def test_the_second_stage_inverts_every_chunk() -> None:
    i, inverse = run("kda_inversion_golden")
    for b in range(2):
        for h in range(2):
            for first in (0, 16):
                lower = i["L"][b, first : first + 16, h].double()
                close(inverse[b, first : first + 16, h], torch.linalg.inv(torch.eye(16) + lower))
                assert (lower.triu() == 0).all()


def test_the_third_stage_multiplies_by_the_inverse() -> None:
    i, (w, u) = run("kda_wy_golden")
    for first in (0, 16):
        rows = slice(first, first + 16)
        for h in range(2):
            t_inv, beta = i["Tinv"][1, rows, h].double(), i["beta"][1, rows, h].double()
            strong = i["k"][1, rows, h].double() * i["g"][1, rows, h].double().exp()
            close(w[1, rows, h], t_inv @ torch.diag(beta) @ strong, 1e-2)
            close(u[1, rows, h], t_inv @ torch.diag(beta) @ i["v"][1, rows, h].double(), BF16)
    assert w.dtype == u.dtype == torch.bfloat16


def test_the_fourth_stage_carries_the_state_from_chunk_to_chunk() -> None:
    i, (h, v_new, final) = run("kda_chunk_h_golden")
    for head in range(2):
        state = i["h0"][0, head].double()
        for chunk in range(2):
            rows = slice(16 * chunk, 16 * chunk + 16)
            close(h[0, chunk, head], state, 1e-3)
            written = i["u"][0, rows, head].double() - i["w"][0, rows, head].double() @ state
            close(v_new[0, rows, head], written, BF16)
            g, k = i["g"][0, rows, head].double(), i["k"][0, rows, head].double()
            state = torch.diag(g[-1].exp()) @ state + sum(
                torch.outer(k[t] * (g[-1] - g[t]).exp(), written[t]) for t in range(16)
            )
        close(final[0, head], state, 1e-3)


def test_the_fifth_stage_adds_what_the_chunk_itself_wrote() -> None:
    i, out = run("kda_chunk_o_golden")
    for head in range(2):
        for t in range(32):
            chunk, first = t // 16, 16 * (t // 16)
            g, q = i["g"][0, :, head].double(), i["q"][0, t, head].double()
            wanted = (q * g[t].exp()) @ i["h"][0, chunk, head].double()
            for s in range(first, t + 1):
                weight = (q * i["k"][0, s, head].double() * (g[t] - g[s]).exp()).sum()
                wanted = wanted + weight * i["v_new"][0, s, head].double()
            close(out[0, t, head], wanted * 0.25, BF16)


def test_all_stages_together_are_the_recurrence() -> None:
    i, (out, final) = run("kda_e2e_golden")
    wanted, state = expected(i, i["h0"], 0.25, normalise=False)
    close(out, wanted, BF16)
    close(final, state, 1e-4)
