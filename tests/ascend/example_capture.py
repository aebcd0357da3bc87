"""An ordinary profiling script: nothing in it knows that a stand-in runs below."""

import argparse

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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--collect-only", action="store_true", help="leave the analysis to another process")
    parser.add_argument("--level", default="Level1", choices=("Level0", "Level1"))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--device", default="npu:0")
    parser.add_argument("--noise-mib", type=int, default=4)
    parser.add_argument("--never-synchronise", action="store_true", help="a mistake: steps then overlap")
    return parser.parse_args()


def golden(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    scores = torch.softmax(x @ w, dim=-1).float()
    return (scores + 1).max(dim=-1).values


def main(asked: argparse.Namespace) -> None:
    torch_npu.npu.set_device(asked.device)
    metrics = AiCMetrics.AiCoreNone if asked.level == "Level0" else AiCMetrics.PipeUtilization
    config = _ExperimentalConfig(
        profiler_level=getattr(ProfilerLevel, asked.level), aic_metrics=metrics, export_type=[ExportType.Text]
    )
    x = torch.randn(64, 96, dtype=torch.float16).to(asked.device)
    w = torch.randn(96, 128, dtype=torch.float16).to(asked.device)
    noise = torch.randn(asked.noise_mib, 2**18, device=asked.device)
    torch_npu.npu.synchronize()
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.NPU],
        schedule=schedule(wait=0, active=asked.steps, warmup=1, repeat=1),
        on_trace_ready=tensorboard_trace_handler(asked.folder, analyse_flag=not asked.collect_only),
        experimental_config=config,
    ) as profiler:
        for _ in range(asked.steps + 1):
            torch.max(noise)
            if not asked.never_synchronise:
                torch_npu.npu.synchronize()
            golden(x, w)
            if not asked.never_synchronise:
                torch_npu.npu.synchronize()
            profiler.step()


if __name__ == "__main__":
    main(arguments())
