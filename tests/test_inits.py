"""Init recipes: the grammar, its one spelling, and that what is accepted can be drawn as promised."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts import dtypes, inits, tensors
from scripts.cases import TensorSpec
from scripts.dtypes import DTYPES
from scripts.errors import ConfigError
from scripts.inits import Init


@pytest.mark.parametrize(
    ("text", "init", "spelling"),
    [
        ("randn", Init("randn", (1, 0)), "randn"),
        (" randn * 0.02 ", Init("randn", (0.02, 0)), "randn*0.02"),
        ("randn*0.02+1.0", Init("randn", (0.02, 1)), "randn*0.02+1"),
        ("randn*2e-2-1.5", Init("randn", (0.02, -1.5)), "randn*0.02-1.5"),
        ("randn*1+0", Init("randn", (1, 0)), "randn"),
        ("randn+3", Init("randn", (1, 3)), "randn+3"),
        ("uniform(-1, 1)", Init("uniform", (-1, 1)), "uniform(-1,1)"),
        ("u(1e-4,1e-3)", Init("uniform", (1e-4, 1e-3)), "uniform(0.0001,0.001)"),
        ("randint(0,128)", Init("randint", (0, 128)), "randint(0,128)"),
        ("ri(-127,128)", Init("randint", (-127, 128)), "randint(-127,128)"),
        ("ri(0,2^10)", Init("randint", (0, 1024)), "randint(0,1024)"),
        ("zeros", Init("zeros"), "zeros"),
        ("ones", Init("ones"), "ones"),
        ("const(2^-6)", Init("const", (0.015625,)), "const(0.015625)"),
        ("const(-2^2)", Init("const", (-4,)), "const(-4)"),
        ("7", Init("const", (7,)), "const(7)"),
        ("-0.5", Init("const", (-0.5,)), "const(-0.5)"),
        ("-0.0", Init("const", (-0.0,)), "const(-0.0)"),
        ("const(18446744073709551615)", Init("const", (2**64 - 1,)), "const(18446744073709551615)"),
        ("-inf", Init("const", (-math.inf,)), "const(-inf)"),
        ("arange", Init("arange", (0, 1)), "arange"),
        ("arange(0,1)", Init("arange", (0, 1)), "arange"),
        ("arange(5,-2)", Init("arange", (5, -2)), "arange(5,-2)"),
        ("perm", Init("perm"), "perm"),
        ("bernoulli(0.5)", Init("bernoulli", (0.5,)), "bernoulli(0.5)"),
        ("rope_cos", Init("rope_cos", (10000,)), "rope_cos"),
        ("rope_sin(5e5)", Init("rope_sin", (500000,)), "rope_sin(500000)"),
        ("tril", Init("tril"), "tril"),
        ("triu", Init("triu"), "triu"),
        ("eye", Init("eye"), "eye"),
    ],
)
def test_every_form_is_read_and_spelt_in_one_way(text: str, init: Init, spelling: str) -> None:
    assert inits.parse(text) == init
    assert inits.spelling(text) == spelling
    assert inits.parse(spelling) == init


def test_const_nan_is_read() -> None:
    assert inits.spelling("nan") == "const(nan)"
    assert math.isnan(inits.parse("const(nan)").numbers[0])


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "rand",
            "RANDN",
            "randn()",
            "randn*",
            "randn*0",
            "randn*-1",
            "randn*inf",
            "randn+nan",
            "randn**2",
            "2*randn",
        ),
        *(
            "uniform",
            "uniform(1)",
            "uniform(1,1)",
            "uniform(2,1)",
            "uniform(0,inf)",
            "uniform(0,1",
            "uniform 0,1",
            "u()",
        ),
        *("randint(0,0)", "randint(0.5,2)", "randint(5)", "ri", "zeros()", "zeros(1)", "ones+1", "const", "const()"),
        *(
            "const(1,2)",
            "const(x)",
            "const(2^2000)",
            "const(1e999)",
            "const(0^-1)",
            "1e5^2",
            "--1",
            "1_000",
            "٣",
            "0x10",
        ),
        *(
            "arange(1)",
            "arange(0,0)",
            "arange(0,nan)",
            "bernoulli",
            "bernoulli(2)",
            "bernoulli(-0.1)",
            "rope",
            "rope_cos(0)",
        ),
        *("rope_cos(-1)", "tril(1)", "eye(2)", "__import__('os')", "randn;ones", "randn\nones", "9" * 300, "const(1))"),
    ],
)
def test_anything_else_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        inits.parse(text)
    message = str(error.value)
    assert message.endswith(f"Allowed: {inits.GRAMMAR}.")
    assert "\n" not in message and len(message) < 600


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=20),
        st.text(alphabet="randnuioscte0123456789.,()*+-^e ", max_size=20),
        st.builds("{}({},{})".format, st.sampled_from(["u", "ri", "arange", "uniform"]), FINITE, FINITE),
        st.builds("randn*{}{:+}".format, FINITE, FINITE),
        FINITE.map(repr),
        st.integers().map(str),
    )
)
def test_random_text_is_a_recipe_with_one_spelling_or_a_config_error(text: str) -> None:
    try:
        init = inits.parse(text)
    except ConfigError:
        return
    assert str(inits.parse(str(init))) == str(init)
    assert repr(inits.parse(str(init))) == repr(init)


@pytest.mark.parametrize(
    ("text", "shape", "dtype", "words"),
    [
        ("randn", (2,), "int32", "Write randint(a,b)"),
        ("uniform(0,1)", (2,), "uint8", "Write randint(a,b)"),
        ("randn", (2,), "bool", "Write bernoulli(p)"),
        ("rope_cos", (2, 4), "int64", "cannot hold"),
        ("rope_cos", (2, 4), "complex64", "needs a float dtype"),
        ("rope_cos", (4,), "float32", "at least two dimensions"),
        ("rope_sin", (4, 3), "float32", "even last dimension"),
        ("tril", (3,), "bool", "at least two dimensions"),
        ("eye", (), "float32", "at least two dimensions"),
        ("randint(0,129)", (2,), "int8", "from 0 to 128"),
        ("randint(-1,2)", (2,), "uint16", "from -1 to 1"),
        ("randint(0,3)", (2,), "bool", "from 0 to 2"),
        ("randint(0,2^63)", (2,), "int64", "are drawn from -2^63"),
        ("const(2^63)", (2,), "uint64", "are drawn from -2^63"),
        ("const(0.5)", (2,), "int8", "fraction 0.5"),
        ("arange(0,0.5)", (2,), "int8", "fraction 0.5"),
        ("const(256)", (2,), "uint8", "0 to 255"),
        ("const(nan)", (2,), "int8", "has no nan"),
        ("const(inf)", (2,), "float8_e4m3fn", "has no inf"),
        ("const(70000)", (2,), "float16", "holds -65504 to 65504"),
        ("const(1e-9)", (2,), "float16", "would be 0 everywhere"),
        ("randn*100", (2,), "float8_e4m3fn", "from -600 to 600"),
        ("randn", (2,), "float8_e8m0fnu", "from -6 to 6"),
        ("zeros", (2,), "float8_e8m0fnu", "from 0 to 0"),
        ("arange", (300,), "uint8", "from 0 to 299"),
        ("arange(0,-1)", (3,), "uint8", "from -2 to 0"),
        ("perm", (300,), "int8", "from 0 to 299"),
        ("perm", (300,), "bfloat16", "no permutation"),
        ("perm", (3,), "bool", "from 0 to 2"),
    ],
)
def test_a_recipe_that_does_not_suit_its_tensor_is_refused(
    text: str, shape: tuple[int, ...], dtype: str, words: str
) -> None:
    with pytest.raises(ConfigError) as error:
        inits.check(inits.parse(text), shape, dtype)
    assert words in str(error.value)


RECIPES = [
    *(
        "randn",
        "randn*0.5+1",
        "randn*0.1+100",
        "randn*4",
        "randn*0.01-3",
        "uniform(0,1)",
        "uniform(1,2)",
        "uniform(-200,50)",
    ),
    *(
        "randint(0,2)",
        "randint(1,3)",
        "randint(-5,5)",
        "randint(0,200)",
        "randint(250,256)",
        "zeros",
        "ones",
        "const(0.25)",
    ),
    *("const(2)", "const(-1)", "const(255)", "const(448)", "const(65504)", "const(1e30)", "const(1e300)", "const(nan)"),
    *("const(inf)", "arange", "arange(1,2)", "arange(8,-1)", "arange(0,0.25)", "perm", "bernoulli(0.5)", "rope_cos"),
    *("rope_sin(500)", "tril", "triu", "eye", "const(9223372036854775807)", "randint(0,9223372036854775807)"),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_accepted_is_drawn_with_the_values_promised(dtype: str) -> None:
    accepted = 0
    for text in RECIPES:
        init, shape = inits.parse(text), (4, 2)
        try:
            inits.check(init, shape, dtype)
        except ConfigError:
            continue
        accepted += 1
        tensor = tensors.draw(TensorSpec(shape, dtype, str(init)), seed=0, name="x")
        assert (str(tensor.dtype), tuple(tensor.shape)) == (f"torch.{dtype}", shape)
        assert tensor.numel() * tensor.element_size() == TensorSpec(shape, dtype, text).nbytes
        values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        _assert_promised(init, values)
    assert accepted >= 5


def _assert_promised(init: Init, values: torch.Tensor) -> None:
    if init.kind == "const" and not math.isfinite(init.numbers[0]):
        special = values.double()[..., 0]
        assert special.isnan().all() if math.isnan(init.numbers[0]) else special.isinf().all()
        return
    exact = not values.dtype.is_floating_point
    flat = [int(value) if exact else float(value) for value in values.reshape(-1)]
    assert all(map(math.isfinite, flat)), init
    if init.kind == "const" and exact:
        assert set(flat) == {init.numbers[0]}
    if init.kind == "perm" and values.dim() == 2:
        assert sorted(flat) == list(range(8))
    if init.kind == "arange" and exact:
        start, step = init.numbers
        assert flat == [start + step * index for index in range(8)]
    if init.kind == "randint" and values.dim() == 2:
        low, high = init.numbers
        # Floats with few digits round whole numbers, never past the next power of two.
        assert all(low <= value < high for value in flat) or not exact


@pytest.mark.parametrize("name", DTYPES)
def test_the_table_of_dtypes_is_torchs(name: str) -> None:
    dtype, real = DTYPES[name], getattr(torch, name)
    assert dtype.nbytes == real.itemsize
    assert (dtype.is_float, dtype.kind == "complex") == (real.is_floating_point, real.is_complex)
    if dtype.is_integer:
        info = torch.iinfo(real)
        assert (dtype.low, dtype.high) == (info.min, info.max)
    elif dtype.kind != "bool":
        limits = torch.finfo(real)
        assert dtype.high == limits.max
        assert dtype.low == (limits.tiny if name == "float8_e8m0fnu" else limits.min)
        _assert_float_facts(dtype, real)


def _assert_float_facts(dtype: dtypes.Dtype, real: torch.dtype) -> None:
    def stored(value: float) -> complex:
        return complex(torch.tensor(value, dtype=torch.float64).to(real).to(torch.complex128).item())

    part = stored(math.inf)
    assert dtype.has_inf == math.isinf(part.real)
    assert dtype.has_nan == math.isnan(stored(math.nan).real)
    assert stored(dtype.smallest) == dtype.smallest
    if dtype.low <= 0:
        assert stored(dtype.smallest / 4) == 0
        assert stored(dtype.exact_integers) == dtype.exact_integers
        assert stored(dtype.exact_integers + 1) != dtype.exact_integers + 1


def test_other_spellings_of_a_dtype_are_known() -> None:
    assert dtypes.alias("bf16") == "bfloat16"
    assert dtypes.alias("torch.float32") == "float32"
    assert dtypes.alias("Half") == "float16"
    assert dtypes.alias("e8m0") == "float8_e8m0fnu"
    assert dtypes.alias("nonsense") is None


@pytest.mark.parametrize(("text", "meant"), [("one", "ones"), ("unifrom(0,1)", "uniform"), ("rand", "randn")])
def test_an_init_that_is_nearly_one_is_told_which(text: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"Did you mean .*{meant}\b.*\? Allowed: "):
        inits.parse(text)
