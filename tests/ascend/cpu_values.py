"""Gives the stand-in's tensors the values that the CPU computes, so that a golden's result can be compared.

The stand-in's device memory is host memory. Each operator is run twice: on the CPU over the same memory, and on the
device, where it only takes time; then the CPU's results are written where the device's should be. Agreement with a CPU
run shows that arguments, views and copies arrive where they should. It shows nothing of an NPU's arithmetic.

torch calls `install` at the end of its import, through the entry point that build.py writes beside a copy of this
file. TASK_QUEUE_ENABLE must be 0: with the queue, copies happen some time after the call that asks for them.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

# Operators of torch_npu's own that ordinary calls turn into, as functions of CPU tensors.
ON_CPU = {
    "npu::npu_dtype_cast": lambda x, dtype: x.to(dtype),
    "npu::_npu_dtype_cast": lambda x, dtype: x.to(dtype),
    "npu::npu_format_cast": lambda x, _format: x,
    "npu::_npu_format_cast": lambda x, _format: x,
}
one_hot = torch.nn.functional.one_hot
WITHOUT_VALUES = ("aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided", "aten::resize_")


def on_device(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.device.type == "npu"


def names_device(leaf: object) -> bool:
    return isinstance(leaf, torch.device) and leaf.type == "npu"


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the memory of a stand-in device's tensor, with its strides."""
    storage = tensor.untyped_storage()
    view = torch.empty(0, dtype=tensor.dtype)
    if storage.nbytes() == 0:
        return view.new_empty(tensor.shape)
    memory = (ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr())
    whole = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    return view.set_(whole, tensor.storage_offset(), tensor.shape, tensor.stride())


def for_cpu(leaf: Any) -> Any:
    if on_device(leaf):
        return host_view(leaf)
    if isinstance(leaf, torch.Generator) and leaf.device.type != "cpu":
        return None
    return torch.device("cpu") if names_device(leaf) else leaf


def written(schema: torch.FunctionSchema, args: tuple, kwargs: dict) -> list[tuple[torch.Tensor, str | int]]:
    """The tensors that a call writes to, each with its name or position; lists of them are told by position."""
    places: list[tuple[torch.Tensor, str | int]] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if argument.name in kwargs:
            places.append((kwargs[argument.name], argument.name))
        elif position < len(args):
            places.append((args[position], position))
    return places


class CpuValues(TorchDispatchMode):
    """While active, every operator on the device also gets its values from the CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        leaves = tree_flatten((args, kwargs))[0]
        name = func._schema.name
        if name in WITHOUT_VALUES or not any(on_device(leaf) or names_device(leaf) for leaf in leaves):
            return func(*args, **kwargs)
        targets = written(func._schema, args, kwargs)
        cpu_args, cpu_kwargs = tree_map(for_cpu, (list(args), kwargs))
        for _, place in targets:  # the device's part of the call may scribble on what it writes
            holder = cpu_args if isinstance(place, int) else cpu_kwargs
            holder[place] = tree_map(
                lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, holder[place]
            )
        cpu_result = ON_CPU.get(name, func)(*cpu_args, **cpu_kwargs)
        result = func(*args, **kwargs)
        for tensor, place in targets:
            put(tensor, (cpu_args if isinstance(place, int) else cpu_kwargs)[place], [])
        return result if targets else put(result, cpu_result, leaves)


def put(results: Any, values: Any, inputs: list) -> Any:
    """Write the CPU's values into the device's results; return the results, values in place of what is no tensor."""
    outs, structure = tree_flatten(results)
    held = {leaf.untyped_storage().data_ptr() for leaf in inputs if isinstance(leaf, torch.Tensor)} - {0}
    pairs = zip(outs, tree_flatten(values)[0], strict=True)
    return tree_unflatten([put_one(out, value, held) for out, value in pairs], structure)


def put_one(result: Any, value: Any, held: set[int]) -> Any:
    if not isinstance(result, torch.Tensor):
        return value
    if result.untyped_storage().data_ptr() in held:  # a view: the values are there
        return result
    if result.shape != value.shape:  # only the values say how many there are
        result = torch.empty(value.shape, dtype=value.dtype, device=result.device)
    (host_view(result) if on_device(result) else result).copy_(value)
    return result


def one_hot_with_values(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """torch_npu launches this one before any dispatch mode can see it."""
    result = one_hot(tensor, num_classes)
    return put(result, one_hot(host_view(tensor), num_classes), [tensor]) if on_device(tensor) else result


def install() -> None:
    """Give values for the rest of this process, on the thread that imported torch."""
    CpuValues().__enter__()
    torch.nn.functional.one_hot = one_hot_with_values
