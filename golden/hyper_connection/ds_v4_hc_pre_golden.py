"""What a block reads from hc residual streams, and how it will write back (DeepSeek V4).

Formula, with x the hc D values of a token: mix = (x hc_fn^T) / sqrt(mean(x^2) + eps), cut into hc, hc and hc hc
columns;
    pre = sigmoid(mix_0 s_0 + b_0) + eps;   post = 2 sigmoid(mix_1 s_1 + b_1);   comb = sinkhorn(mix_2 s_2 + b_2)
    y = sum over the streams of pre x

Shapes: x [T, hc D]; hc_fn [2 hc + hc hc, hc D] float32; hc_scale [3], hc_base [1, 2 hc + hc hc] float32. Outputs: y [T,
D] in x's dtype, post [T, hc] and comb [T, hc, hc] float32. Computed in float32.
Source: DeepSeek V4, mHC (2025). Chosen: eps is added to pre and in the Sinkhorn steps and not to post; no source was at
hand that fixes this. In eager form the 20 steps launch two kernels each, and more, which dominate the profile.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul
from golden.hyper_connection.sinkhorn import sinkhorn


def ds_v4_hc_pre_golden(
    x: torch.Tensor,
    hc_fn: torch.Tensor,
    hc_scale: torch.Tensor,
    hc_base: torch.Tensor,
    hc: int = 4,
    sinkhorn_iters: int = 20,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return y [T, D], post [T, hc] and comb [T, hc, hc]."""
    wide = x.float()
    mix = matmul(wide, hc_fn.t()) * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    sizes = [hc, hc, hc * hc]
    pre, post, comb = (
        m * s + b for m, s, b in zip(mix.split(sizes, -1), hc_scale.unbind(), hc_base.split(sizes, -1), strict=True)
    )
    y = ((torch.sigmoid(pre) + eps)[..., None] * wide.unflatten(-1, (hc, -1))).sum(1)
    return y.to(x.dtype), 2 * torch.sigmoid(post), sinkhorn(comb.unflatten(-1, (hc, hc)), sinkhorn_iters, eps)
