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


def matmul_int8(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Integer product of int8 matrices as float32.

    `@` on int8 wraps around, so the product goes through float32, which is exact while sums stay below 2^24: always for
    K <= 1040, and in practice for random values at any K used here.
    """
    return torch.matmul(a.float(), b.float())


# --- MX: blocks of 32 along K share a power-of-two scale (e8m0); scales lie in pairs, one pair per 64 -----------------


def quantise_mx(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """MXFP8 over the last dim K (K % 64 == 0): float8_e4m3fn [..., K] and float8_e8m0fnu scales [..., K / 64, 2].

    The scale is 2^(floor(log2 amax) - 8), as in the OCP MX specification: values reach 512 and saturate at 448.
    """
    blocks = x.float().unflatten(-1, (-1, MX_BLOCK))
    # Exponent bits: exact for every power of two, and at least 2^-126, because subnormal scales may be flushed to zero.
    biased = (_biased_exponent(blocks.abs().amax(-1)) - 8).clamp(1, 254)
    scale = (biased << 23).view(torch.float32)
    values = (blocks / scale[..., None]).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
    return values.flatten(-2), scale.to(torch.float8_e8m0fnu).unflatten(-1, (-1, 2))


def dequantise_mx(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float32 of rows [..., K] with scales [..., K / 64, 2]."""
    return dequantise_groups(values, scale.float().flatten(-2))


def dequantise_mx_weight(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float32 of a weight [..., K, N] with scales [..., K / 64, N, 2]."""
    per_block = scale.float().transpose(-2, -1).flatten(-3, -2)  # [..., K / 32, N]
    return (values.float().unflatten(-2, (-1, MX_BLOCK)) * per_block[..., None, :]).flatten(-3, -2)


def _biased_exponent(x: torch.Tensor) -> torch.Tensor:
    return x.float().view(torch.int32) >> 23 & 255


# --- HiFloat8: 8 bits with tapered precision; no torch dtype, so values on its grid are kept in wider types -----------

HIF8_MAX = 32768.0  # 2^15, the largest finite value


def round_hifloat8(x: torch.Tensor) -> torch.Tensor:
    """float32 nearest HiFloat8 values, half away from zero, saturating at +-32768.

    Mantissa bits by exponent e: 3 for |e| <= 3, 2 for |e| <= 7, 1 for |e| <= 15, none below, down to 2^-22. All these
    values are exact in bfloat16. Source: Luo et al. 2024, "Ascend HiFloat8 Format for Deep Learning".
    """
    x = x.float()
    exponent = (_biased_exponent(x) - 127).clamp(-22, 15)
    size = exponent.abs()
    bits = (size <= 3).int() + (size <= 7).int() + (size <= 15).int()
    step = ((exponent - bits + 127) << 23).view(torch.float32)
    magnitude = (torch.floor(x.abs() / step + 0.5) * step).clamp(max=HIF8_MAX)
    return magnitude * torch.sign(x)


def quantise_hifloat8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """bfloat16 values on the HiFloat8 grid over the last dim; float32 scale [..., 1] = amax / 32768."""
    scale = amax_scale(x, HIF8_MAX)
    return round_hifloat8(x.float() / scale).to(torch.bfloat16), scale
