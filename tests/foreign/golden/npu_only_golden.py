"""Takes for granted that it runs beside an NPU: imports torch_npu, sets the device, and fixes it."""

import torch
import torch_npu  # noqa: F401

torch.npu.set_device(0)
torch.npu.config.allow_internal_format = False
DEVICE = torch.device("npu:0")
DEVICE_NAME = "npu:0"


def npu_only_golden(x, scale, device=DEVICE):
    offsets = torch.arange(x.shape[-1], dtype=x.dtype, device=device)
    return x * scale + offsets


def _make_inputs(device):
    return (torch.randn(4, 8, device=DEVICE), torch.ones(1, device=DEVICE_NAME)), {}
