"""How much work one call of a golden is: the FLOPs that torch counts, and the bytes of its inputs and outputs.

Both are properties of the call, not of a kernel. FLOPs are those of matmul-like operators (matrix products,
convolutions, attention), by the formulas of torch.utils.flop_counter; elementwise work and reductions count nothing, so
the figure is a lower bound. Bytes are those of the arguments read once and the results written once: what an ideal
kernel would move, not what the golden moves between its operators. Imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_flop_count, shape_wrapper

T = TypeVar("T")
Shape = tuple[int, ...]


def _matrix_vector(matrix: Shape, vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(matrix)


def _add_matrix_vector(_bias: Shape, matrix: Shape, vector: Shape, *_: Any, **__: Any) -> int:
    return 2 * math.prod(matrix)


def _matrix_matrix(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return 2 * a[0] * a[1] * b[1]


def _attention(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    return sdpa_flop_count(query, key, value)


# torch's own table, and the matmul-like operators that it lacks.
FORMULAS = {
    **flop_registry,
    torch.ops.aten.mv: shape_wrapper(_matrix_vector),
    torch.ops.aten.dot: shape_wrapper(_matrix_vector),
    torch.ops.aten.addmv: shape_wrapper(_add_matrix_vector),
    torch.ops.aten._int_mm: shape_wrapper(_matrix_matrix),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: shape_wrapper(_attention),
}


class _Counter(TorchDispatchMode):
    """What torch.utils.flop_counter.FlopCounterMode does, but for its import of torch._dynamo (1.3 s a process)."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        formula = FORMULAS.get(func.overloadpacket)
        if formula is None:
            with self:
                result = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if result is NotImplemented else result
        result = func(*args, **kwargs)
        self.flops += formula(*args, **kwargs, out_val=result)
        return result


def count_flops(call: Callable[[], T]) -> tuple[T, int]:
    """The result of `call`, and the FLOPs of its matmul-like operators; an exception of `call` passes through.

    The counter is a dispatch mode: it slows the call down, so that nothing is timed in it.
    """
    with _Counter() as counter:
        result = call()
    return result, int(counter.flops)


def bytes_moved(
    inputs: Iterable[torch.Tensor], outputs: Iterable[torch.Tensor], mutated: Iterable[torch.Tensor]
) -> int | None:
    """Bytes of all inputs, plus those of the results: mutated inputs, and outputs with memory of their own.

    Memory counts once however many tensors share it; an output that only views an input costs nothing. None when one
    of them has no plain memory to count (a sparse tensor).
    """
    inputs, outputs, mutated = list(inputs), list(outputs), list(mutated)
    if any(tensor.layout is not torch.strided for tensor in (*inputs, *outputs)):
        return None
    read, written = _by_storage(inputs), _by_storage(mutated)
    for address, nbytes in _by_storage(outputs).items():
        if address not in read:
            written[address] = nbytes
    return sum(read.values()) + sum(written.values())


def _by_storage(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """Bytes in use of every distinct storage: those of the tensors on it, and never more than it holds."""
    used: dict[int, int] = {}
    for tensor in {id(tensor): tensor for tensor in tensors}.values():
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        used[address] = min(used.get(address, 0) + tensor.numel() * tensor.element_size(), storage.nbytes())
    return used
