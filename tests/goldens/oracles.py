"""Independent formulations in float64 that the golden tests compare with: other algorithms than golden/ uses."""

from __future__ import annotations

import itertools

import torch


def rms(x: torch.Tensor, gamma: torch.Tensor | None = None, eps: float = 0.0) -> torch.Tensor:
    """RMSNorm by way of the vector norm."""
    x = x.double()
    size = torch.linalg.vector_norm(x, dim=-1, keepdim=True) ** 2 / x.shape[-1]
    return x / (size + eps).sqrt() * (1.0 if gamma is None else gamma.double())


def layer(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor | None, eps: float) -> torch.Tensor:
    """LayerNorm by torch's own operator."""
    beta = beta if beta is None else beta.double()
    return torch.nn.functional.layer_norm(x.double(), x.shape[-1:], gamma.double(), beta, eps)


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, layout: str) -> torch.Tensor:
    """Rotary embedding as a product of complex numbers.

    `layout`: "half" pairs (i, i + D/2); "pairs" pairs (2i, 2i + 1) in place; "interleaved" the same, de-interleaved.
    """
    half = x.shape[-1] // 2
    rotation = torch.complex(cos[..., :half].double(), sin[..., :half].double())
    shape = (2, half) if layout == "half" else (half, 2)
    pairs = x.double().unflatten(-1, shape)
    pairs = pairs.transpose(-1, -2) if layout == "half" else pairs
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * rotation)
    return (turned if layout == "pairs" else turned.transpose(-1, -2)).flatten(-2)


def int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers as float64, and the scale [..., 1] = amax / 127, over the last dim."""
    scale = x.double().abs().max(-1, keepdim=True).values / 127
    return (x.double() / scale).round(), scale


def same_steps(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal integers, except for a few that float32 rounds to the neighbouring step."""
    assert actual.dtype == torch.int8 and actual.shape == expected.shape
    difference = (actual.double() - expected).abs()
    assert difference.max() <= 1 and difference.mean() < 0.02


def mx(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Rows [..., K] with scales [..., K / 64, 2], as float64."""
    return values.double() * scale.float().double().flatten(-2).repeat_interleave(32, dim=-1)


def mx_weight(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """A weight [K, N] with scales [K / 64, N, 2], column by column."""
    columns = [mx(values[:, n], scale[:, n]) for n in range(values.shape[1])]
    return torch.stack(columns, dim=1)


def mx_rounded(x: torch.Tensor) -> torch.Tensor:
    """Quantised to MXFP8 and back, block by block with Python numbers for the exponent."""
    blocks = []
    for block in x.double().flatten().split(32):
        step = 2.0 ** (torch.frexp(block.abs().max()).exponent.item() - 1 - 8)
        blocks.append((block / step).clamp(-448, 448).float().to(torch.float8_e4m3fn).double() * step)
    return torch.cat(blocks).reshape(x.shape)


_PREFIXES = {"11": 4, "10": 3, "01": 2, "001": 1, "0001": 0, "0000": -1}  # width of the exponent; -1: denormal


def hifloat8_values() -> list[float]:
    """All positive finite HiFloat8 values, by decoding every bit pattern: a prefix code for the exponent's width, the
    exponent in sign-magnitude form with a hidden leading one, the mantissa in what is left of 7 bits."""
    found = []
    for code in range(1, 128):
        bits = f"{code:07b}"
        prefix = next(prefix for prefix in _PREFIXES if bits.startswith(prefix))
        width, rest = _PREFIXES[prefix], bits[len(prefix) :]
        if width < 0:
            found.append(2.0 ** (int(rest, 2) - 23))
            continue
        field, mantissa = rest[:width], rest[width:]
        size = int("1" + field[1:], 2) if width else 0
        exponent = -size if field.startswith("1") else size
        found.append(2.0**exponent * (1 + int(mantissa, 2) / 2 ** len(mantissa)))
    return sorted(found)[:-1]  # the largest pattern is infinity


def hifloat8(x: torch.Tensor) -> torch.Tensor:
    """The nearest HiFloat8 value of each element, by search in the table of all of them."""
    grid = torch.tensor([0.0, *hifloat8_values()], dtype=torch.float64)
    middles = torch.tensor([(a + b) / 2 for a, b in itertools.pairwise(grid.tolist())], dtype=torch.float64)
    return grid[torch.bucketize(x.double().abs(), middles, right=True)] * x.double().sign()


def tokens_of(cache: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    """A sequence's rows, collected one token at a time through its block table."""
    size = cache.shape[1]
    return torch.stack([cache[int(table[p // size]), p % size] for p in range(length)])


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, sink: float | None = None) -> torch.Tensor:
    """One query [D] over keys [S, D] and values [S, Dv]; a sink adds exp(sink) to the denominator."""
    logits = (k.double() * q.double()).sum(-1) * scale
    shift = logits.max()
    weights = (logits - shift).exp()
    total = weights.sum() + (0.0 if sink is None else torch.exp(torch.as_tensor(sink).double() - shift))
    return (weights[:, None] * v.double()).sum(0) / total
