"""An ordinary profiling script: nothing in it knows that a stand-in runs below.

python example_capture.py FOLDER {analyse|collect} [LEVEL] [STEPS] [DEVICE]
"""

import sys

import torch
import torch_npu
from torch_npu.profiler import (
    AiCMetrics,
    ExportType,
    ProfilerActivity,
    ProfilerLevel,
    _ExperimentalConfig,
    profile,
    schedule,
    tensorboard_trace_handler,
)


def golden(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scores = torch.softmax(x @ w, dim=-1).float()
    return (scores + 1).max(dim=-1).values


def main(folder: str, what: str, level: str = "Level1", steps: str = "3", device: str = "npu:0") -> None:
    torch.npu.set_device(device)
    metrics = AiCMetrics.AiCoreNone if level == "Level0" else AiCMetrics.PipeUtilization
    config = _ExperimentalConfig(
        profiler_level=getattr(ProfilerLevel, level), aic_metrics=metrics, export_type=[ExportType.Text]
    )
    x = torch.randn(64, 96, dtype=torch.float16).to(device)
    w = torch.randn(96, 128, dtype=torch.float16).to(device)
    noise = torch.randn(4096, 256, device=device)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.NPU],
        schedule=schedule(wait=0, active=int(steps), warmup=1, repeat=1),
        on_trace_ready=tensorboard_trace_handler(folder, analyse_flag=what == "analyse"),
        experimental_config=config,
    ) as profiler:
        for _ in range(int(steps) + 1):
            torch.max(noise)
            torch_npu.npu.synchronize()
            golden(x, w)
            torch_npu.npu.synchronize()
            profiler.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
