"""Running steps under torch.profiler and reading its raw events: the tree of operators, regions, the CPU's kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from scripts.artifacts import Region
from scripts.devices.base import GOLDEN_LABEL
from scripts.errors import CaseFailure
from scripts.status import Status

STEP_LABEL = "goldenprof::step"
LABEL_PREFIX = "goldenprof::"
# Operators that only make or change a tensor's metadata although their schema does not say "view".
_METADATA = (
    "aten::_unsafe_view",
    "aten::unsafe_chunk",
    "aten::unsafe_split",
    "aten::unsafe_split_with_sizes",
    "aten::is_pinned",
    "aten::is_same_size",
    "aten::is_set_to",
    "aten::resize_as_",
    "aten::_resize_output_",
    "aten::_nnz",
    "aten::sparse_dim",
    "aten::dense_dim",
    "aten::is_coalesced",
    "aten::_coalesced_",
    "aten::unsqueeze_",
    "aten::squeeze_",
    "aten::as_strided_",
    "aten::transpose_",
    "aten::t_",
    "aten::detach_",
    "aten::set_",
    "aten::resize_",
    "aten::lift_fresh",
    "aten::_lazy_clone",
)
# What autograd records around the operators of a backward pass.
_WRAPPERS = ("autograd::", "torch::autograd::")
_ALLOCATIONS = ("aten::empty", "aten::new_empty", "aten::_empty_affine_quantized")


@dataclass
class OpEvent:
    """One operator call on the host, with the calls made inside it; times in ns since the epoch."""

    name: str
    start_ns: int
    end_ns: int
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    correlation: int
    parent: OpEvent | None = None
    children: list[OpEvent] = field(default_factory=list)

    @property
    def self_ns(self) -> int:
        """Time inside the operator and outside the operators it called."""
        return self.end_ns - self.start_ns - sum(child.end_ns - child.start_ns for child in self.children)

    @property
    def outermost(self) -> OpEvent:
        """The operator that the golden itself called."""
        return self if self.parent is None else self.parent.outermost


def run_steps(profiler: torch.profiler.profile, iterate: Callable[[int], Region], iterations: int) -> None:
    """Run every iteration inside an annotation, and stop the profiler whatever happens."""
    profiler.start()
    try:
        for k in range(iterations):
            with torch.profiler.record_function(f"{STEP_LABEL}#{k}"):
                iterate(k)
    finally:
        profiler.stop()


def info(activities: list[str], active: int) -> dict:
    """profiler_info.json of a capture that torch.profiler made."""
    return {
        "config": {
            "common_config": {
                "activities": [f"ProfilerActivity.{name}" for name in activities],
                "schedule": {"wait": 0, "active": active, "warmup": 0, "repeat": 1, "skip_first": 0},
                "record_shapes": True,
            },
            "experimental_config": {},
        },
        "torch_version": torch.__version__,
    }


def new_profiler(activities: list[torch.profiler.ProfilerActivity]) -> torch.profiler.profile:
    """torch.profiler for all threads: by itself it sees only the one that starts it, and a golden may start others."""
    every_thread = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    return torch.profiler.profile(activities=activities, record_shapes=True, experimental_config=every_thread)


def raw(profiler: torch.profiler.profile) -> list[Any]:
    """The raw events of a profiler that has been stopped."""
    stopped: Any = profiler.profiler
    return list(stopped.kineto_results.events())


def operators(events: Iterable[Any]) -> list[OpEvent]:
    """Every operator call of the host's threads, in order of start, linked to its caller."""
    found: list[OpEvent] = []
    open_calls: dict[int, list[OpEvent]] = {}
    host = (
        e
        for e in events
        if e.device_type() == torch.autograd.DeviceType.CPU
        and not e.is_user_annotation()
        and "::" in e.name()
        and not e.is_async()
    )
    for event in sorted(host, key=lambda e: (e.start_ns(), -e.duration_ns())):
        op = OpEvent(
            event.name(),
            event.start_ns(),
            event.start_ns() + event.duration_ns(),
            _shapes(event.shapes()),
            tuple(event.dtypes()),
            event.correlation_id(),
        )
        stack = open_calls.setdefault(event.start_thread_id(), [])
        while stack and stack[-1].end_ns < op.end_ns:
            stack.pop()
        if stack:
            op.parent = stack[-1]
            stack[-1].children.append(op)
        stack.append(op)
        found.append(op)
    return [op for op in found if not _joins_its_caller(op)]


def _joins_its_caller(op: OpEvent) -> bool:
    """Whether an operator only is its caller once more, in another overload: then both are one call.

    `aten::div_(Tensor, number)` calls `aten::div_(Tensor, Tensor)`; torch's own averages count that once, too.
    """
    caller = op.parent
    if caller is None or caller.name != op.name or len(caller.children) != 1:
        return False
    caller.children = op.children
    for child in op.children:
        child.parent = caller
    return True


def _shapes(shapes: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """Shapes of the tensor arguments; list arguments have none in the trace."""
    return tuple(tuple(int(size) for size in shape) for shape in shapes if all(isinstance(size, int) for size in shape))


def regions(events: Iterable[Any], label: str = GOLDEN_LABEL) -> list[Region]:
    """The annotated regions in the trace's own clock, in order of iteration; the Step Id is the iteration plus one."""
    found = []
    for event in events:
        name, _, iteration = event.name().partition("#")
        if name == label and iteration.isdigit() and event.device_type() == torch.autograd.DeviceType.CPU:
            k = int(iteration)
            found.append(Region(k, k + 1, event.start_ns(), event.start_ns() + event.duration_ns()))
    return sorted(found, key=lambda region: region.iteration)


def golden_regions(events: Iterable[Any], steps: list[Region]) -> list[Region]:
    """The golden's regions, one in every step; CaseFailure where the capture lacks some.

    A golden that uses torch.profiler itself ends the capture that it runs in: there is one profiler in a process.
    """
    found = regions(events)
    if not found or len(found) != len(steps):
        raise CaseFailure(
            Status.PROFILER_FAILED,
            f"The capture shows {len(found)} of the golden's calls in {len(steps)} iterations: something else stopped "
            "or started torch's profiler while it ran.",
            "A golden must not use torch.profiler itself: there is one in a process. Remove it from the golden.",
        )
    return found


def step_of(start_ns: int, steps: list[Region]) -> int | None:
    """The Step Id whose range holds `start_ns`."""
    return next((step.step_id for step in steps if step.start_ns <= start_ns <= step.end_ns), None)


@cache
def _registered(dispatch_key: str) -> frozenset[str]:
    """Names (without overload) of the operators that have a kernel for a dispatch key."""
    return frozenset(
        name.partition(".")[0] for name in torch._C._dispatch_get_registrations_for_dispatch_key(dispatch_key)
    )


@cache
def only_moves_metadata(name: str) -> bool:
    """Whether an operator is a view or an allocation: it computes nothing."""
    if name.startswith(_ALLOCATIONS) or name in _METADATA:
        return True
    schemas = [
        schema
        for schema in torch._C._jit_get_schemas_for_operator(name)
        if any(str(argument.type) == "Tensor" for argument in schema.arguments)  # not TorchScript's own, for its lists
    ]
    return bool(schemas) and all(map(_returns_aliases, schemas))


def _returns_aliases(schema: Any) -> bool:
    return bool(schema.returns) and all(
        result.alias_info is not None and not result.alias_info.is_write for result in schema.returns
    )


def kernel_names(ops: Iterable[OpEvent]) -> frozenset[str]:
    """The operators that are kernels on the CPU: those implemented for it, and leaves that are no mere composition.

    Wrappers (`aten::matmul`, `aten::to`), views and allocations are not kernels; the rule is by name, so that a type is
    either in the table with all of its calls or not at all.
    """
    names: set[str] = set()
    for op in ops:
        if op.name in names or op.name.startswith(_WRAPPERS) or only_moves_metadata(op.name):
            continue
        leaf = not any(not only_moves_metadata(child.name) for child in op.children)
        if op.name in _registered("CPU") or (leaf and op.name not in _registered("CompositeImplicitAutograd")):
            names.add(op.name)
    return frozenset(names)
