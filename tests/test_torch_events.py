"""Which operators are kernels, read off real traces of the CPU and off hand-made events of a GPU."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from scripts.artifacts import Region
from scripts.devices import cuda, torch_events
from scripts.devices.torch_events import OpEvent


def traced(function: Any, *arguments: Any) -> tuple[profile, list[OpEvent]]:
    """The operators of one call on the CPU."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        function(*arguments)
    return profiler, torch_events.operators(torch_events.raw(profiler))


def kernels(function: Any, *arguments: Any) -> Counter[str]:
    """How often each kernel ran."""
    _, ops = traced(function, *arguments)
    names = torch_events.kernel_names(ops)
    return Counter(op.name for op in ops if op.name in names)


X = torch.randn(32, 16)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: torch.matmul(X, X.T), {"aten::mm": 1}),
        (lambda: X.to(torch.bfloat16), {"aten::copy_": 1}),
        (lambda: X.to(torch.float32), {}),
        (lambda: X.T.contiguous(), {"aten::copy_": 1}),
        (lambda: X.contiguous(), {}),
        (lambda: X.reshape(16, 32).transpose(0, 1)[1:3].unsqueeze(0), {}),
        (lambda: torch.softmax(X, -1), {"aten::_softmax": 1}),
        (lambda: torch.empty(3, 4), {}),
        (lambda: [part[0] for part in X.split(8) + X.chunk(2) + X.unbind(1)[:0]], {}),
        (lambda: X.view(torch.int32).expand(2, 32, 16).select(0, 1).diagonal(), {}),
        (lambda: torch.einsum("ij,kj->ik", X, X), {"aten::bmm": 1}),
        (lambda: X.clone(), {"aten::copy_": 1}),
        (lambda: torch.cat([X, X]), {"aten::cat": 1}),
        (lambda: X.clone().div_(3), {"aten::copy_": 2, "aten::div_": 1}),  # the number is copied into a tensor
    ],
)
def test_wrappers_views_and_allocations_are_no_kernels(function: Any, expected: dict[str, int]) -> None:
    assert kernels(function) == expected


def test_the_kernels_agree_with_torchs_own_averages() -> None:
    def work() -> torch.Tensor:
        y = torch.softmax(X @ X.T, -1).sum(-1, keepdim=True) / 3
        return torch.topk((y * X).to(torch.bfloat16).float().amax(-1), 4)[0].mul_(2)

    profiler, ops = traced(work)
    names = torch_events.kernel_names(ops)
    ours = {name: [0, 0] for name in names}
    for op in ops:
        if op.name in names:
            ours[op.name][0] += 1
            ours[op.name][1] += op.self_ns
    theirs = {
        row.key: [row.count, round(row.self_cpu_time_total * 1000)]
        for row in profiler.key_averages()
        if row.key in names
    }
    assert ours == theirs


def test_self_times_add_up_to_the_outermost_calls() -> None:
    _, ops = traced(lambda: torch.softmax(X @ X.T, -1).sum(-1))
    outermost = sum(op.end_ns - op.start_ns for op in ops if op.parent is None)
    assert sum(op.self_ns for op in ops) == outermost


@dataclass
class RawEvent:
    """A raw profiler event as torch gives it."""

    label: str
    device: DeviceType
    start: int
    duration: int
    correlation: int = 0
    linked: int = 0
    annotation: bool = False
    dims: list = field(default_factory=list)

    def name(self) -> str:
        return self.label

    def device_type(self) -> DeviceType:
        return self.device

    def start_ns(self) -> int:
        return self.start

    def duration_ns(self) -> int:
        return self.duration

    def correlation_id(self) -> int:
        return self.correlation

    def linked_correlation_id(self) -> int:
        return self.linked

    def is_user_annotation(self) -> bool:
        return self.annotation

    def is_async(self) -> bool:
        return False

    def shapes(self) -> list:
        return self.dims

    def dtypes(self) -> list[str]:
        return ["float"] * len(self.dims)

    def start_thread_id(self) -> int:
        return 1

    def device_resource_id(self) -> int:
        return 7

    def device_index(self) -> int:
        return 0


def gpu_trace() -> list[RawEvent]:
    """One step: an operator that launches two kernels through its inner operator, a copy, and a kernel of nobody's."""
    return [
        RawEvent("aten::matmul", DeviceType.CPU, 100, 50, correlation=1, dims=[[4, 8], [8, 2]]),
        RawEvent("aten::mm", DeviceType.CPU, 110, 30, correlation=2, dims=[[4, 8], [8, 2]]),
        RawEvent("cudaLaunchKernel", DeviceType.CPU, 115, 5, correlation=91, linked=2),
        RawEvent("goldenprof::golden#0", DeviceType.CUDA, 200, 500, annotation=True),
        RawEvent("splitK_gemm<float>", DeviceType.CUDA, 210, 40, correlation=91, linked=2),
        RawEvent("reduce<float>", DeviceType.CUDA, 260, 10, correlation=92, linked=2),
        RawEvent("Memcpy DtoD (Device -> Device)", DeviceType.CUDA, 280, 20, correlation=93, linked=1),
        RawEvent("triton_fused<int>", DeviceType.CUDA, 310, 30, correlation=94),
    ]


def test_a_gpus_kernels_are_typed_by_the_operator_that_launched_them() -> None:
    rows = cuda.device_kernels(gpu_trace(), [Region(0, 1, 50, 900)])
    assert [(row.op_type, row.name, row.core, row.duration_ns, row.step_id) for row in rows] == [
        ("aten::mm", "splitK_gemm<float>", "CUDA", 40, 1),
        ("aten::mm", "reduce<float>", "CUDA", 10, 1),
        ("aten::matmul", "Memcpy DtoD (Device -> Device)", "MEMORY", 20, 1),
        ("triton_fused", "triton_fused<int>", "CUDA", 30, 1),
    ]
    assert rows[0].shapes == ((4, 8), (8, 2))


def test_a_gpus_statistics_are_torchs_own_assignment() -> None:
    @dataclass
    class Kernel:
        name: str
        duration: float

    @dataclass
    class Range:
        us: float

        def elapsed_us(self) -> float:
            return self.us

    @dataclass
    class FunctionEvent:
        id: int
        name: str
        device_type: DeviceType
        kernels: list[Kernel]
        linked_correlation_id: int = 0
        is_user_annotation: bool = False
        time_range: Range = field(default_factory=lambda: Range(0))

    rows = cuda.device_statistics(
        [
            FunctionEvent(2, "aten::mm", DeviceType.CPU, [Kernel("gemm", 0.04), Kernel("reduce", 0.01)]),
            FunctionEvent(91, "gemm", DeviceType.CUDA, [], 2, time_range=Range(0.04)),
            FunctionEvent(94, "triton_fused<int>", DeviceType.CUDA, [], 0, time_range=Range(0.03)),
            FunctionEvent(95, "goldenprof::golden#0", DeviceType.CUDA, [], 0, True, Range(9)),
        ]
    )
    assert {(row.op_type, row.core): (row.count, row.total_ns) for row in rows} == {
        ("aten::mm", "CUDA"): (2, 50),
        ("triton_fused", "CUDA"): (1, 30),
    }


def test_operators_of_other_threads_are_seen() -> None:
    import threading

    def work() -> None:
        thread = threading.Thread(target=lambda: X @ X.T)
        thread.start()
        thread.join()

    profiler = torch_events.new_profiler([ProfilerActivity.CPU])
    profiler.start()
    work()
    profiler.stop()
    ops = torch_events.operators(torch_events.raw(profiler))
    assert Counter(op.name for op in ops if op.name in torch_events.kernel_names(ops)) == {"aten::mm": 1}


def test_what_autograd_records_around_a_backward_pass_is_no_kernel() -> None:
    def work() -> None:
        with torch.enable_grad():
            x = X.detach().requires_grad_()
            (x @ x.T).sum().backward()

    assert not [name for name in kernels(work) if not name.startswith("aten::")]


def test_a_capture_without_the_goldens_calls_is_refused() -> None:
    from scripts.errors import CaseFailure

    with pytest.raises(CaseFailure, match=r"0 of the golden's calls in 1 iterations"):
        torch_events.golden_regions([], [Region(0, 1, 50, 900)])
