"""What a block reads from n residual streams, and how it will write back (manifold-constrained hyper-connections).

Formula, with z the n D values of a token: m = (z / sqrt(mean(z^2) + eps)) phi^T, cut into n, n and n n columns;
    h_pre = sigmoid(alpha_0 m_0 + bias_0);   h_post = 2 sigmoid(alpha_1 m_1 + bias_1);   h_res = alpha_2 m_2 + bias_2
    h_in = sum over the streams of h_pre x

Shapes: x [T, n, D]; phi [2 n + n n, n D] float32; alpha [3], bias [2 n + n n] float32. Outputs: h_in [T, D] in x's
dtype, h_post [T, n] and h_res [T, n, n] float32. Computed in float32.
Source: mHC (2025). Chosen: the norm has no gain and is applied before phi, as the definition has it; no source was at
hand that fixes the order of scale and norm. h_res is returned before its Sinkhorn normalisation, which is mhc_sinkhorn.
"""

from __future__ import annotations

import torch

from golden.blocks import matmul, rms_norm


def mhc_pre_golden(
    x: torch.Tensor, phi: torch.Tensor, alpha: torch.Tensor, bias: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return h_in [T, D], h_post [T, n] and h_res [T, n, n]."""
    streams = x.shape[1]
    mixed = matmul(rms_norm(x.flatten(1), None, eps), phi.t())
    sizes = [streams, streams, streams * streams]
    pre, post, res = (
        a * m + b for a, m, b in zip(alpha.unbind(), mixed.split(sizes, -1), bias.split(sizes), strict=True)
    )
    h_in = (torch.sigmoid(pre)[..., None] * x.float()).sum(1)
    return h_in.to(x.dtype), 2 * torch.sigmoid(post), res.unflatten(-1, (streams, streams))
