"""Uses torch_npu when it is there."""

import torch

try:
    import torch_npu

    FUSED = hasattr(torch_npu, "npu_rms_norm")
except ImportError:
    FUSED = False


def optional_npu_golden(x, weight):
    if FUSED:
        raise RuntimeError("a stand-in was taken for torch_npu")
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def _make_inputs(device):
    return [
        (name, (torch.randn(rows, 16, device=device), torch.ones(16, device=device)), {})
        for name, rows in (("few_rows", 4), ("many_rows", 64))
    ]
