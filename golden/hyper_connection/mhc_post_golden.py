"""What a block writes back to n residual streams (manifold-constrained hyper-connections).

Formula: y[i] = sum over j of h_res[i, j] x[j] + h_post[i] h_out, per token.

Shapes: x [T, n, D]; h_res [T, n, n] float32; h_out [T, D]; h_post [T, n] float32; output [T, n, D] in x's dtype.
Computed in float32.
Source: mHC (2025).
"""

from __future__ import annotations

import torch

from golden.blocks import matmul


def mhc_post_golden(x: torch.Tensor, h_res: torch.Tensor, h_out: torch.Tensor, h_post: torch.Tensor) -> torch.Tensor:
    """Return y [T, n, D] in x's dtype."""
    return (matmul(h_res, x) + h_post.float()[..., None] * h_out.float()[:, None]).to(x.dtype)
