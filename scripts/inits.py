"""The recipes by which mode A draws a tensor: their grammar, and whether a recipe suits a shape and dtype.

Nothing is drawn here and torch is not needed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from scripts.dtypes import DTYPES, Dtype
from scripts.errors import ConfigError
from scripts.names import did_you_mean, quote

Number = int | float

# (form, meaning); the grammar as users see it, in errors and in docs/cases.md.
FORMS: tuple[tuple[str, str], ...] = (
    ("randn", "standard normal"),
    ("randn*0.02+1.0", "normal, scaled and shifted; either part may stand alone, and the shift may be negative"),
    ("uniform(a,b)", "uniform between a and b; short form `u(a,b)`"),
    ("randint(a,b)", "whole numbers from a up to b-1; short form `ri(a,b)`"),
    ("zeros", "0 everywhere"),
    ("ones", "1 everywhere"),
    ("const(v)", "v everywhere; v may be `2^-6`, `nan` or `inf`; a bare number means the same"),
    ("arange", "0, 1, 2, … over the flattened tensor"),
    ("arange(start,step)", "start, start+step, … likewise"),
    ("perm", "a permutation of 0..n-1 for a tensor of n elements"),
    ("bernoulli(p)", "1 (True) with probability p, else 0"),
    (
        "rope_cos(theta)",
        "cosines of position × frequency, two equal halves in the last dimension; theta defaults to 10000",
    ),
    ("rope_sin(theta)", "sines likewise"),
    ("tril", "1 (True) on and below the diagonal of the last two dimensions, else 0"),
    ("triu", "1 (True) on and above the diagonal of the last two dimensions, else 0"),
    ("eye", "1 on the diagonal of the last two dimensions, else 0"),
)
GRAMMAR = ", ".join(form for form, _ in FORMS)

_ALIASES = {"u": "uniform", "ri": "randint"}
# kind → numbers it takes when it has parentheses; the second entry stands in when it has none.
_ARGUMENTS: dict[str, tuple[int, tuple[Number, ...] | None]] = {
    "uniform": (2, None),
    "randint": (2, None),
    "zeros": (0, ()),
    "ones": (0, ()),
    "const": (1, None),
    "arange": (2, (0, 1)),
    "perm": (0, ()),
    "bernoulli": (1, None),
    "rope_cos": (1, (10000,)),
    "rope_sin": (1, (10000,)),
    "tril": (0, ()),
    "triu": (0, ()),
    "eye": (0, ()),
}
_MAX_TEXT = 200
_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_NUMBER_TEXT = rf"[+-]?(?:{_DECIMAL}(?:[eE][+-]?\d+|\s*\^\s*[+-]?\d+)?|inf|nan)"
_NUMBER = re.compile(_NUMBER_TEXT, re.ASCII)
_RANDN = re.compile(
    rf"randn(?:\s*\*\s*(?P<scale>{_NUMBER_TEXT}))?(?:\s*(?P<sign>[+-])\s*(?P<mean>{_NUMBER_TEXT}))?", re.ASCII
)
_CALL = re.compile(r"(?P<kind>[a-z_]+)\s*(?:\((?P<numbers>[^()]*)\))?", re.ASCII)
# A normal tensor of a billion elements stays within six standard deviations.
_NORMAL_REACH = 6


@dataclass(frozen=True)
class Init:
    """One recipe: its kind and all its numbers, defaults filled in.

    randn: (scale, mean) · uniform, randint: (a, b) · const: (v,) · arange: (start, step) · bernoulli: (p,) ·
    rope_cos, rope_sin: (theta,) · the others: (). Whole numbers are `int`, so that 64-bit ones stay exact.
    """

    kind: str
    numbers: tuple[Number, ...] = ()

    def __str__(self) -> str:
        """The one spelling of this recipe: `parse(str(init)) == init`."""
        if self.kind == "randn":
            scale, mean = self.numbers
            shift = "" if mean == 0 else f"{'-' if mean < 0 else '+'}{abs(mean)!r}"
            return "randn" + (f"*{scale!r}" if scale != 1 else "") + shift
        if self.numbers == _ARGUMENTS[self.kind][1]:
            return self.kind
        return f"{self.kind}({','.join(map(repr, self.numbers))})"


@lru_cache(maxsize=4096)
def parse(text: str) -> Init:
    """Read a recipe such as `randn*0.02` or `ri(0,128)`. Raises ConfigError, with the grammar, for anything else."""
    stripped = text.strip()
    if len(stripped) > _MAX_TEXT:
        raise _refused(text, f"it is longer than {_MAX_TEXT} characters")
    if _NUMBER.fullmatch(stripped):
        return Init("const", (_number(stripped, text),))
    if match := _RANDN.fullmatch(stripped):
        return _randn(match, text)
    match = _CALL.fullmatch(stripped)
    if match is None:
        raise _refused(text)
    kind = _ALIASES.get(match["kind"], match["kind"])
    if kind not in _ARGUMENTS:
        raise _refused(text)
    count, default = _ARGUMENTS[kind]
    if match["numbers"] is None:
        if default is None:
            raise _refused(text, f"{kind} needs {count} number{'s' * (count > 1)} in parentheses")
        return Init(kind, default)
    words = [word.strip() for word in match["numbers"].split(",")] if match["numbers"].strip() else []
    if count == 0 or len(words) != count:
        raise _refused(text, f"{kind} takes {count or 'no'} number{'s' * (count != 1)}")
    return _sensible(Init(kind, tuple(_number(word, text) for word in words)), text)


@lru_cache(maxsize=4096)
def spelling(text: str) -> str:
    """The one spelling of a recipe; raises ConfigError as `parse` does."""
    return str(parse(text))


def _randn(match: re.Match[str], text: str) -> Init:
    scale = _number(match["scale"], text) if match["scale"] else 1
    mean = _number(match["mean"], text) if match["mean"] else 0
    if match["sign"] == "-":
        mean = -mean
    if not (math.isfinite(scale) and scale > 0 and math.isfinite(mean)):
        raise _refused(text, "randn's scale is a finite number above 0 and its shift a finite number")
    return Init("randn", (scale, mean or 0))


def _sensible(init: Init, text: str) -> Init:
    """`init` itself, once its numbers make sense whatever the dtype."""
    kind, numbers = init.kind, init.numbers
    if kind != "const" and not all(map(math.isfinite, numbers)):
        raise _refused(text, "nan and inf are for const only")
    if kind in ("uniform", "randint") and not numbers[0] < numbers[1]:
        raise _refused(text, f"{kind}(a,b) needs a < b")
    if kind == "randint" and not all(isinstance(number, int) for number in numbers):
        raise _refused(text, "randint takes whole numbers")
    if kind == "arange" and numbers[1] == 0:
        raise _refused(text, "arange's step must not be 0; for one value everywhere write const(v)")
    if kind == "bernoulli" and not 0 <= numbers[0] <= 1:
        raise _refused(text, "bernoulli's p is a probability from 0 to 1")
    if kind in ("rope_cos", "rope_sin") and numbers[0] <= 0:
        raise _refused(text, "theta must be above 0")
    return init


def _number(word: str, text: str) -> Number:
    """A whole number as int (also `2^10` and `3.0`), any other as float."""
    if not _NUMBER.fullmatch(word):
        raise _refused(text, f"{quote(word)} is not a number")
    try:
        base, _, exponent = word.partition("^")
        if exponent:
            value: Number = _power(base.strip(), int(exponent))
        else:
            value = int(word) if re.fullmatch(r"[+-]?\d+", word, re.ASCII) else float(word)
    except (OverflowError, ZeroDivisionError):
        raise _refused(text, f"{quote(word)} is too large for a number") from None
    if math.isinf(value) and "inf" not in word:
        raise _refused(text, f"{quote(word)} is too large for a number")
    # -0.0 is kept: it differs from 0 in every float dtype.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0":
        return int(value)
    return value


def _power(base: str, exponent: int) -> Number:
    """`base^exponent`, where the sign belongs to the whole: -2^2 is -4."""
    sign, digits = (-1, base[1:]) if base.startswith("-") else (1, base.removeprefix("+"))
    if abs(exponent) > 1100:
        raise OverflowError
    if exponent >= 0 and digits.isdecimal():
        value = int(digits) ** exponent
        return sign * (value if value < 2**64 else float(value))
    return sign * float(digits) ** exponent


def _refused(text: str, why: str = "") -> ConfigError:
    reason = f": {why}" if why else ""
    hint = did_you_mean(text.partition("(")[0].strip(), ["randn", *_ARGUMENTS]) if not why else ""
    return ConfigError(f"{quote(text)} is not an init{reason}.{hint} Allowed: {GRAMMAR}.")


def check(init: Init, shape: tuple[int, ...], dtype_name: str) -> None:
    """Refuse a recipe that cannot fill a tensor of `shape` and `dtype_name` with the values it promises.

    Raises ConfigError: wrong kind of dtype, values outside the dtype's range or rounded to 0, wrong shape.
    """
    dtype = DTYPES[dtype_name]
    _check_kind(init, dtype)
    _check_shape(init, shape)
    numel = math.prod(shape)
    if init.kind == "const" and not math.isfinite(init.numbers[0]):
        _check_special(init, dtype)
        return
    low, high = _span(init, numel)
    if low < dtype.low or high > dtype.high:
        raise ConfigError(
            f"{init} reaches from {low:g} to {high:g}, and {dtype.name} holds {dtype.low:g} to {dtype.high:g}. "
            "Choose other numbers or another dtype."
        )
    if dtype.is_integer or init.kind in ("randint", "arange", "perm"):
        _check_int64(init, low, high)
    if 0 < max(abs(low), abs(high)) < dtype.smallest / 2:
        raise ConfigError(
            f"{init} would be 0 everywhere: the least positive {dtype.name} is {dtype.smallest:g}. "
            "Choose other numbers or another dtype."
        )
    if init.kind == "perm" and numel - 1 > dtype.exact_integers:
        raise ConfigError(
            f"perm of {numel} elements is no permutation in {dtype.name}, which holds whole numbers exactly only up to "
            f"{dtype.exact_integers}. Use int32 or int64."
        )


def _check_kind(init: Init, dtype: Dtype) -> None:
    if init.kind in ("randn", "uniform", "rope_cos", "rope_sin") and dtype.kind in ("integer", "bool"):
        instead = "bernoulli(p)" if dtype.kind == "bool" else "randint(a,b)"
        raise ConfigError(f"{init} draws fractions, which {dtype.name} cannot hold. Write {instead} instead.")
    if init.kind in ("rope_cos", "rope_sin") and not dtype.is_float:
        raise ConfigError(f"{init} needs a float dtype, not {dtype.name}.")
    if dtype.kind in ("integer", "bool") and init.kind in ("const", "arange"):
        fractions = [number for number in init.numbers if isinstance(number, float) and not number.is_integer()]
        if fractions and math.isfinite(fractions[0]):
            raise ConfigError(f"{init} has the fraction {fractions[0]!r}, which {dtype.name} cannot hold.")


def _check_shape(init: Init, shape: tuple[int, ...]) -> None:
    if init.kind in ("tril", "triu", "eye", "rope_cos", "rope_sin") and len(shape) < 2:
        raise ConfigError(f"{init} needs a shape of at least two dimensions, not {list(shape)}.")
    if init.kind in ("rope_cos", "rope_sin") and shape[-1] % 2:
        raise ConfigError(f"{init} needs an even last dimension (two equal halves), not {shape[-1]}.")


def _check_int64(init: Init, low: Number, high: Number) -> None:
    """Whole numbers are made as int64, random ones below a bound that is an int64 too."""
    most = 2**63 - (2 if init.kind == "randint" else 1)
    if low < -(2**63) or high > most:
        raise ConfigError(
            f"{init} reaches from {low} to {high}, and whole numbers are drawn from -2^63 to {most}. "
            "Choose other numbers."
        )


def _check_special(init: Init, dtype: Dtype) -> None:
    has = dtype.has_nan if math.isnan(init.numbers[0]) else dtype.has_inf
    if not has:
        raise ConfigError(f"{dtype.name} has no {init.numbers[0]}, so {init} cannot fill it. Choose another dtype.")


def _span(init: Init, numel: int) -> tuple[Number, Number]:
    """The least and the greatest value that the recipe gives (six standard deviations for randn)."""
    kind, numbers = init.kind, init.numbers
    if kind == "randn":
        scale, mean = numbers
        return mean - _NORMAL_REACH * scale, mean + _NORMAL_REACH * scale
    if kind == "uniform":
        return numbers[0], numbers[1]
    if kind == "randint":
        return numbers[0], numbers[1] - 1
    if kind == "const":
        return numbers[0], numbers[0]
    if kind == "arange":
        ends = numbers[0], numbers[0] + numbers[1] * (numel - 1)
        return min(ends), max(ends)
    if kind == "perm":
        return 0, numel - 1
    if kind in ("rope_cos", "rope_sin"):
        return -1, 1
    return {"zeros": (0, 0), "ones": (1, 1)}.get(kind, (0, 1))
