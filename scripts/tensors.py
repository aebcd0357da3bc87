"""Drawing, walking, hashing and storing the tensors of a call. Imports torch."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from scripts import inits
from scripts.artifacts import TensorInfo
from scripts.cases import TensorSpec
from scripts.errors import ArtifactError, CaseFailure
from scripts.status import Status

# What may stand in a call besides tensors; torch's restricted unpickler reads all of it back.
LEAVES = (bool, int, float, complex, str, type(None), torch.dtype)


def draw(spec: TensorSpec, seed: int, name: str) -> torch.Tensor:
    """One tensor on the CPU, drawn from a generator of its own: another tensor more or less changes nothing in it.

    Random values are drawn in float32 (float64 for float64) and cast, so that every dtype, fp8 included, has one path.
    """
    generator = torch.Generator().manual_seed(_seed(seed, name))
    dtype = getattr(torch, spec.dtype)
    with torch.device("cpu"):  # whatever default the golden's file has set
        return _RECIPES[(init := inits.parse(spec.init)).kind](spec.shape, dtype, init.numbers, generator)


def _seed(seed: int, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{name}".encode()).digest()[:8], "big") >> 1


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in (torch.float64, torch.complex128) else torch.float32


def _randn(
    shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
) -> torch.Tensor:
    scale, shift = numbers or (1.0, 0.0)
    drawn = dtype if dtype.is_complex or dtype in _DIRECT else _wide(dtype)
    values = torch.randn(shape, dtype=drawn, generator=generator)
    if scale != 1.0:
        values *= scale
    if shift != 0.0:
        values += shift
    return values.to(dtype)


# Drawn in their own dtype: halves the memory and time of large inputs.
_DIRECT = (torch.bfloat16, torch.float16, torch.float32, torch.float64)


def _uniform(
    shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
) -> torch.Tensor:
    low, high = numbers
    return torch.empty(shape, dtype=_wide(dtype)).uniform_(low, high, generator=generator).to(dtype)


def _randint(
    shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
) -> torch.Tensor:
    low, high = (int(number) for number in numbers)
    return torch.randint(low, high, shape, dtype=torch.int64, generator=generator).to(dtype)


def _bernoulli(
    shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32).bernoulli_(numbers[0], generator=generator).to(dtype)


def _arange(
    shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
) -> torch.Tensor:
    start, step = numbers or (0, 1)
    wide = torch.int64 if start == int(start) and step == int(step) else torch.float64
    count = torch.arange(math.prod(shape), dtype=wide)
    return (
        (count * (int(step) if wide == torch.int64 else step) + (int(start) if wide == torch.int64 else start))
        .to(dtype)
        .reshape(shape)
    )


def _perm(
    shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
) -> torch.Tensor:
    return torch.randperm(math.prod(shape), generator=generator).to(dtype).reshape(shape)


def _const(value: float) -> Callable[..., torch.Tensor]:
    def make(
        shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
    ) -> torch.Tensor:
        number = numbers[0] if numbers else value
        exact = dtype.is_floating_point or dtype.is_complex
        return torch.full(shape, number if exact else int(number), dtype=_wide(dtype) if exact else torch.int64).to(
            dtype
        )

    return make


def _rope(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """cos or sin of position × frequency; the last dimension is two equal halves, the one before it is the position."""

    def make(
        shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
    ) -> torch.Tensor:
        theta = numbers[0] if numbers else 10000.0
        half = (shape[-1] + 1) // 2
        positions = torch.arange(shape[-2] if len(shape) > 1 else 1, dtype=torch.float64)
        frequencies = theta ** (-torch.arange(half, dtype=torch.float64) / half)
        table = function(torch.outer(positions, frequencies)).repeat(1, 2)[:, : shape[-1]]
        return (
            table.reshape((1,) * max(len(shape) - 2, 0) + table.shape)
            .expand(*shape[:-2], *table.shape)
            .reshape(shape)
            .to(dtype)
        )

    return make


def _triangle(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def make(
        shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
    ) -> torch.Tensor:
        return function(torch.ones(shape, dtype=torch.float32)).to(dtype)

    return make


def _eye(
    shape: tuple[int, ...], dtype: torch.dtype, numbers: tuple[float, ...], generator: torch.Generator
) -> torch.Tensor:
    return torch.eye(shape[-2], shape[-1]).expand(shape).to(dtype).clone()


_RECIPES: dict[str, Callable[..., torch.Tensor]] = {
    "randn": _randn,
    "uniform": _uniform,
    "randint": _randint,
    "bernoulli": _bernoulli,
    "arange": _arange,
    "perm": _perm,
    "zeros": _const(0),
    "ones": _const(1),
    "const": _const(0),
    "rope_cos": _rope(torch.cos),
    "rope_sin": _rope(torch.sin),
    "tril": _triangle(torch.tril),
    "triu": _triangle(torch.triu),
    "eye": _eye,
}


def walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every leaf of nested lists, tuples and dicts, with its path: `kv[1]`, `state["m"]`."""
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from walk(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from walk(item, f'{path}["{name}"]')
    else:
        yield path, value


def leaves(args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]) -> Iterator[tuple[str, Any]]:
    """Every leaf of a call; positional arguments are named after the golden's parameters where those are known."""
    for index, value in enumerate(args):
        yield from walk(value, names[index] if index < len(names) else f"args[{index}]")
    for name, value in kwargs.items():
        yield from walk(value, name)


def replace(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same structure with every tensor replaced by `change(tensor)`; one that occurs twice stays one tensor."""
    done: dict[int, torch.Tensor] = {}

    def visit(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            if id(item) not in done:
                done[id(item)] = change(item)
            return done[id(item)]
        if isinstance(item, list):
            return [visit(part) for part in item]
        if isinstance(item, tuple):
            return tuple(visit(part) for part in item)
        if isinstance(item, dict):
            return {name: visit(part) for name, part in item.items()}
        return item

    return visit(value)


def describe(path: str, tensor: torch.Tensor, *, hashed: bool = False, init: str = "") -> TensorInfo:
    """Shape, dtype, size in bytes and, if `hashed`, the SHA-256 of the tensor's bytes in row-major order."""
    return TensorInfo(
        name=path,
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype).removeprefix("torch."),
        nbytes=tensor.numel() * tensor.element_size(),
        sha256=sha256(tensor) if hashed else "",
        init=init,
    )


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bytes as a flat uint8 tensor on the CPU."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def sha256(tensor: torch.Tensor) -> str:
    """SHA-256 (hex) of the tensor's bytes in row-major order."""
    return hashlib.sha256(raw(tensor).numpy().data).hexdigest()


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bytes (NaN equals itself)."""
    return torch.equal(raw(a), raw(b))


def save(path: Path, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Store a call's arguments at `path`, atomically."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        torch.save({"args": list(args), "kwargs": kwargs}, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Read a call's arguments back; only tensors and plain values are unpickled, never code."""
    try:
        call = torch.load(path, map_location="cpu", weights_only=True)
        return tuple(call["args"]), dict(call["kwargs"])
    except FileNotFoundError as error:
        raise ArtifactError(f"{path} is missing; the step make_inputs draws it again.") from error
    except Exception as error:  # torch raises RuntimeError, UnpicklingError, EOFError, KeyError … for a damaged file
        raise ArtifactError(f"{path} cannot be read: {error}. Remove it and run again.", damaged=path) from error


def check_leaves(args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]) -> None:
    """Refuse arguments that cannot be stored and drawn again; raises CaseFailure naming the argument."""
    for path, value in leaves(args, kwargs, names):
        if not isinstance(value, (torch.Tensor, *LEAVES)):
            raise CaseFailure(
                Status.GOLDEN_FAILED,
                f"The factory made {path} a {type(value).__module__}.{type(value).__qualname__}, which cannot be "
                "stored.",
                "Allowed are tensors, numbers, strings, booleans, None, torch dtypes, and lists, tuples and dicts of "
                "these.",
            )
