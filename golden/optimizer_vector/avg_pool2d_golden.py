"""Average pooling with SAME padding.

Formula: out[y, x] = mean of the ksize * ksize values from (y stride - top, x stride - left) on, padded zeros counted;
ceil(H / stride) rows, with (rows - 1) stride + ksize - H padded rows, the smaller half on top, and columns likewise.

Shapes: x [N, C, H, W]; output [N, C, ceil(H / stride), ceil(W / stride)] in x's dtype. Computed in float32.
Source: TensorFlow's AvgPool with SAME padding. Chosen: padded zeros count, which TensorFlow leaves out.
"""

from __future__ import annotations

import torch


def avg_pool2d_golden(x: torch.Tensor, ksize: int = 2, stride: int = 2) -> torch.Tensor:
    """Return the pooled x in x's dtype."""
    padding = []
    for size in (x.shape[-1], x.shape[-2]):
        total = max((-(-size // stride) - 1) * stride + ksize - size, 0)
        padding += [total // 2, total - total // 2]
    padded = torch.nn.functional.pad(x.float(), padding)
    return torch.nn.functional.avg_pool2d(padded, ksize, stride).to(x.dtype)
