"""The inputs of a golden's call on one line: `{q: (2, 8), kv: [(2, 8), (2, 8)], causal: True}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scripts.artifacts import TensorInfo

PATH = re.compile(r'[^\[]+(\[\d+\]|\[".*?"\])*')
STEP = re.compile(r'\[(\d+)\]|\["(.*?)"\](?=\[|$)')
MOST_ITEMS = 12  # of one list
MOST_VALUE = 60  # characters of one scalar


def shapes(tensors: Sequence[TensorInfo], scalars: Mapping[str, Any]) -> str:
    """The call's shapes as the report writes them: `{q: (2, 8), kv: [(2, 8), (2, 8)], causal: True}`."""
    return _call(tensors, scalars, lambda tensor: str(tuple(tensor.shape)), _value)


def dtypes(tensors: Sequence[TensorInfo], scalars: Mapping[str, Any]) -> str:
    """The call's dtypes: `{q: torch.bfloat16, causal: bool}`."""
    return _call(tensors, scalars, lambda tensor: f"torch.{tensor.dtype}", lambda value: type(value).__name__)


def _value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_VALUE else f"{text[:MOST_VALUE]}…"


def _call(
    tensors: Sequence[TensorInfo],
    scalars: Mapping[str, Any],
    tensor_text: Callable[[TensorInfo], str],
    scalar_text: Callable[[Any], str],
) -> str:
    tree: dict[str | int, Any] = {}
    for tensor in tensors:
        _put(tree, tensor.name, tensor_text(tensor))
    for name, value in scalars.items():
        _put(tree, name, scalar_text(value))
    return _node(tree, braces=True)


def _put(tree: dict[str | int, Any], path: str, leaf: str) -> None:
    """Hang `leaf` under its path: `kv[1]` is item 1 of `kv`, `state["m"]` the entry `m` of `state`."""
    steps: list[str | int] = [path]
    if PATH.fullmatch(path):
        steps = [path.partition("[")[0], *(int(index) if index else key for index, key in STEP.findall(path))]
    node = tree
    for step in steps[:-1]:
        below = node.setdefault(step, {})
        if not isinstance(below, dict):  # a leaf already: no path of a real call, so it is shown as it is
            node, steps = tree, [path]
            break
        node = below
    node[steps[-1]] = leaf


def _node(node: dict[str | int, Any] | str, braces: bool = False) -> str:
    if isinstance(node, str):
        return node
    if not braces and sorted(node, key=str) == sorted(range(len(node)), key=str):
        return "[" + ", ".join(_folded([_node(node[i]) for i in range(len(node))])) + "]"
    return "{" + ", ".join(_folded([f"{name}: {_node(below)}" for name, below in node.items()], 10**6)) + "}"


def _folded(items: list[str], most: int = MOST_ITEMS) -> list[str]:
    """A long list made short: `(2, 8) × 64` for equal items, else its two ends."""
    if len(items) > 4 and len(set(items)) == 1:
        return [f"{items[0]} × {len(items)}"]
    if len(items) <= most:
        return items
    half = most // 2
    return [*items[:half], f"… {len(items) - 2 * half} more …", *items[-half:]]
