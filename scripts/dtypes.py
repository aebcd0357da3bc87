"""The tensor dtypes that cases.yaml may name, with what must be known of them without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """One torch dtype.

    `low` and `high` bound its finite values (of one component, for a complex dtype); every whole number in
    0..`exact_integers` is representable; `smallest` is the least positive value, 1 for integers.
    """

    name: str  # torch's name without "torch."
    nbytes: int
    kind: str  # "bool", "integer", "float" or "complex"
    low: int | float
    high: int | float
    exact_integers: int
    smallest: float = 1.0
    has_inf: bool = False
    has_nan: bool = False

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind == "integer"


def _integer(name: str, nbytes: int) -> Dtype:
    signed = name.startswith("int")
    high = 2 ** (8 * nbytes - signed) - 1
    return Dtype(name, nbytes, "integer", -high - 1 if signed else 0, high, high)


def _float(name: str, nbytes: int, high: float, digits: int, smallest_exponent: int, has_inf: bool = True) -> Dtype:
    """A float with `digits` binary digits of precision, the implied one included."""
    return Dtype(name, nbytes, "float", -high, high, 2**digits, 2.0**smallest_exponent, has_inf, has_nan=True)


def _complex(name: str, part: Dtype) -> Dtype:
    exact, smallest = part.exact_integers, part.smallest
    return Dtype(name, 2 * part.nbytes, "complex", part.low, part.high, exact, smallest, has_inf=True, has_nan=True)


_FLOAT32 = _float("float32", 4, (2 - 2.0**-23) * 2.0**127, 24, -149)
_FLOAT64 = _float("float64", 8, (2 - 2.0**-52) * 2.0**1023, 53, -1074)

DTYPES: dict[str, Dtype] = {
    dtype.name: dtype
    for dtype in (
        _float("bfloat16", 2, (2 - 2.0**-7) * 2.0**127, 8, -133),
        _float("float16", 2, 65504.0, 11, -24),
        _FLOAT32,
        _FLOAT64,
        _integer("int8", 1),
        _integer("int16", 2),
        _integer("int32", 4),
        _integer("int64", 8),
        _integer("uint8", 1),
        _integer("uint16", 2),
        _integer("uint32", 4),
        _integer("uint64", 8),
        Dtype("bool", 1, "bool", 0, 1, 1),
        _complex("complex64", _FLOAT32),
        _complex("complex128", _FLOAT64),
        _float("float8_e4m3fn", 1, 448.0, 4, -9, has_inf=False),
        _float("float8_e5m2", 1, 57344.0, 3, -16),
        _float("float8_e4m3fnuz", 1, 240.0, 4, -10, has_inf=False),
        _float("float8_e5m2fnuz", 1, 57344.0, 3, -17, has_inf=False),
        # Powers of two without sign and without zero: the scales of the MX formats.
        Dtype("float8_e8m0fnu", 1, "float", 2.0**-127, 2.0**127, 0, 2.0**-127, has_inf=False, has_nan=True),
    )
}

# Only hints come from these: a dtype is written in one way, so that two spellings never make two cases.
_ALIASES = {
    "bf16": "bfloat16",
    "f16": "float16",
    "fp16": "float16",
    "half": "float16",
    "f32": "float32",
    "fp32": "float32",
    "float": "float32",
    "f64": "float64",
    "fp64": "float64",
    "double": "float64",
    "i8": "int8",
    "i16": "int16",
    "short": "int16",
    "i32": "int32",
    "int": "int32",
    "i64": "int64",
    "long": "int64",
    "u8": "uint8",
    "byte": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "boolean": "bool",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "fp8": "float8_e4m3fn",
    "float8": "float8_e4m3fn",
    "e4m3": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "fp8_e5m2": "float8_e5m2",
    "e8m0": "float8_e8m0fnu",
    "float8_e8m0": "float8_e8m0fnu",
}


def alias(name: str) -> str | None:
    """The dtype that `name` is another spelling of ("bf16", "torch.float32", "Half"), or None."""
    plain = name.strip().casefold().removeprefix("torch.")
    return plain if plain in DTYPES else _ALIASES.get(plain)
