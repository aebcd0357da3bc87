"""What every operator of cases.yaml owes, shown on its smoke cases."""

from __future__ import annotations

import copy
import time

import pytest
import torch
from support import OPERATORS, ROOT, finite, inputs_of, load, tensors

SMOKE = [
    (operator, case)
    for operator, entry in OPERATORS.items()
    for case, body in entry["cases"].items()
    if body["tier"] == "smoke"
]

# The arguments that an operator updates; every other argument must come out of a call as it went in.
UPDATED = {
    "ds_v32_mla_prolog_quant_golden": {"kv_cache", "kr_cache", "k_scale_cache"},
    "ds_v32_mla_indexer_prolog_quant_golden": {
        "kv_cache",
        "kr_cache",
        "k_scale_cache",
        "idx_k_cache",
        "idx_k_scale_cache",
    },
    "mla_prolog_mxfp_quant_v3_golden": {"kv_cache", "kr_cache"},
    "mla_prolog_quant_hifp8_v3_golden": {"kv_cache", "kr_cache"},
    "ds_v32_lightning_indexer_prolog_quant_golden": {"idx_k_cache", "idx_k_scale_cache"},
    "lightning_indexer_prolog_quant_hif8_golden": {"k_cache", "k_scale_cache"},
    "lightning_indexer_prolog_quant_mxfp8_golden": {"k_cache", "k_scale_cache"},
    "ds_v4_compressor_golden": {"kv_state", "score_state"},
    "glm_attention_golden": {"k_cache", "v_cache"},
    "glm_attention_fusion_golden": {"k_cache", "v_cache"},
    "pangu_fused_layer_v2_bsh_golden": {"key_cache", "value_cache"},
    "recurrent_gated_delta_rule_golden": {"initial_state"},
    "gated_delta_rule_27b_golden": {"initial_state"},
    "kda_fused_decode_golden": {"state"},
    "fused_recurrent_kda_golden": {"state_pool"},
    "quant_grouped_matmul_inplace_add_golden": {"y_init"},
    "inplace_add_rms_norm_golden": {"x1", "x2"},
    "qkv_rms_norm_rope_cache_golden": {"q_out", "k_cache", "v_cache"},
    "scatter_pa_kv_cache_golden": {"key_cache", "value_cache"},
    "apply_adam_w_v2_golden": {"w", "m", "v"},
    "apply_rms_prop_golden": {"var", "ms", "mom"},
    "scatter_nd_sub_golden": {"target"},
    "liger_cross_entropy_fwd_golden": {"logits"},
}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_default_device(None)


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_has_a_golden_of_its_name_a_smoke_case_and_a_p0_case(operator: str) -> None:
    entry = OPERATORS[operator]
    assert entry["golden"] == f"golden/{entry['family']}/{operator}.py"
    assert {"smoke", "p0"} == {body["tier"] for body in entry["cases"].values()}
    module, function = load(operator)
    assert "Shapes:" in module.__doc__ and "Source:" in module.__doc__ and function.__doc__


@pytest.mark.parametrize("operator", [name for name, entry in OPERATORS.items() if entry["mode"] == "B"])
def test_a_factory_makes_exactly_the_cases_of_cases_yaml(operator: str) -> None:
    module, _ = load(operator)
    assert set(module.CASES) == set(OPERATORS[operator]["cases"])
    with pytest.raises(ValueError, match="smoke"):
        module._make_inputs("cpu", "no such case")


@pytest.mark.parametrize("operator, case", SMOKE)
def test_a_smoke_case_is_small_quick_finite_and_repeatable(operator: str, case: str) -> None:
    _, golden = load(operator)
    args, kwargs = inputs_of(operator, case)
    made = list(tensors((args, kwargs)))
    assert made and all(map(finite, made)), "inputs"
    assert sum(tensor.nbytes for tensor in made) < 64 * 2**20
    golden(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    started = time.perf_counter()
    first = golden(*args, **kwargs)
    assert time.perf_counter() - started < 2.0
    outputs = list(tensors(first))
    assert outputs and all(map(finite, outputs)), "outputs"
    assert any(tensor.numel() for tensor in outputs)

    args, kwargs = inputs_of(operator, case)
    again = list(tensors(golden(*args, **kwargs)))
    assert all(torch.equal(a, b) for a, b in zip(outputs, again, strict=True))


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) if a.dim() else bool(a == b)


@pytest.mark.parametrize("operator, case", SMOKE)
def test_a_call_changes_the_arguments_it_should_and_no_other(operator: str, case: str) -> None:
    _, golden = load(operator)
    args, kwargs = inputs_of(operator, case)
    before = copy.deepcopy(kwargs)
    golden(*args, **kwargs)
    changed = {
        name
        for name, value in kwargs.items()
        if not all(same_bits(a, b) for a, b in zip(tensors(value), tensors(before[name]), strict=True))
    }
    assert not args and changed == UPDATED.get(operator, set())


@pytest.mark.parametrize("operator, case", SMOKE)
def test_nothing_is_created_on_another_device_than_the_inputs(operator: str, case: str) -> None:
    """With `meta` as the default device, a tensor created without `device=` cannot take part in the computation."""
    _, golden = load(operator)
    if OPERATORS[operator]["mode"] == "B":
        torch.set_default_device("meta")
    args, kwargs = inputs_of(operator, case)
    assert all(tensor.device.type == "cpu" for tensor in tensors((args, kwargs)))
    torch.set_default_device("meta")
    assert all(tensor.device.type == "cpu" for tensor in tensors(golden(*args, **kwargs)))


def test_every_golden_file_is_in_cases_yaml() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "golden").glob("*/*_golden.py")}
    assert files == {entry["golden"] for entry in OPERATORS.values()}
