"""Quantisers and their inverses: int8 per token, channel or group; fp8; MX blocks with power-of-two scales; HiFloat8.

Rounding is half to even. A row of zeros gets scale 1, so that no 0/0 arises and dequantising is exact.
"""

from __future__ import annotations

import torch

INT8_MAX = 127.0
FP8_MAX = 448.0  # largest finite float8_e4m3fn
MX_BLOCK = 32  # elements that share one e8m0 scale


def amax_scale(x: torch.Tensor, largest: float) -> torch.Tensor:
    """float32 scale [..., 1] that maps the row's largest magnitude to `largest`; 1 for a row of zeros."""
    amax = x.float().abs().amax(-1, keepdim=True)
    return torch.where(amax > 0, amax / largest, torch.ones_like(amax))


def quantise_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric int8 over the last dim: values in -127 … 127, and the float32 scale [..., 1] = amax / 127."""
    scale = amax_scale(x, INT8_MAX)
    return round_int8(x.float() / scale), scale


def round_int8(x: torch.Tensor) -> torch.Tensor:
    """Round half to even and saturate at -128 … 127."""
    return torch.round(x).clamp(-128, 127).to(torch.int8)


def quantise_int8_groups(x: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 per group of `group` neighbours of the last dim; scale [..., D / group]."""
    q, scale = quantise_int8(x.unflatten(-1, (-1, group)))
    return q.flatten(-2), scale.squeeze(-1)


def quantise_int8_channels(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """int8 per output channel of a weight [K, N]; scale [1, N]."""
    q, scale = quantise_int8(weight.transpose(-2, -1))
    return q.transpose(-2, -1).contiguous(), scale.transpose(-2, -1)


def dequantise_groups(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float32 q * scale, one scale [..., D / group] per group of the last dim."""
    return (q.float().unflatten(-1, (scale.shape[-1], -1)) * scale.float()[..., None]).flatten(-2)


def quantise_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float8_e4m3fn over the last dim; float32 scale [..., 1] = amax / 448."""
    scale = amax_scale(x, FP8_MAX)
    return (x.float() / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn), scale
