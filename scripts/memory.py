"""Inputs that would not fit into memory are refused before they are allocated. Imports torch."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from scripts.errors import CaseFailure
from scripts.status import Status

# Inputs, their copy on the device and what the golden makes of them must fit beside each other.
SHARE = 0.4


def check(nbytes: int, what: str) -> None:
    """Raise CaseFailure (skipped) when `nbytes` of inputs would not leave room for the run of `what`."""
    free = available_bytes()
    if nbytes > SHARE * free:
        raise CaseFailure(
            Status.SKIPPED,
            f"The inputs of {what} take {nbytes / 2**30:.2f} GiB; this machine has {free / 2**30:.2f} GiB of memory "
            f"free, and inputs may take {SHARE:.0%} of it.",
            "Make the shapes smaller, or run the case on a machine with more memory.",
        )


def available_bytes() -> int:
    """Memory that can be taken without swapping: the machine's, or the control group's where that is less."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else free
    for limit_file, used_file in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, used = Path("/sys/fs/cgroup", limit_file), Path("/sys/fs/cgroup", used_file)
        if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
            free = min(free, max(int(text) - int(used.read_text()), 0))
    return free


class Guard(TorchDispatchMode):
    """While a factory runs: refuses the tensor that would make what it has created too large, before it is made.

    What a factory makes is only known by running it. Tensors made from nothing (`randn`, `zeros`, `full`, …) are sized
    on the meta device first; those that are still alive are counted, those that were let go are not.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.alive = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(isinstance(value, torch.Tensor) for value in (*args, *kwargs.values())) or "device" not in kwargs:
            return func(*args, **kwargs)
        nbytes = self._size(func, args, kwargs)
        check(self.alive + nbytes, self.what)
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            self.alive += nbytes
            weakref.finalize(result, self._let_go, nbytes)
        return result

    def _size(self, func: Any, args: Any, kwargs: Any) -> int:
        planned = {name: value for name, value in kwargs.items() if name not in ("generator", "pin_memory")}
        try:
            made = func(*args, **{**planned, "device": torch.device("meta")})
        except (RuntimeError, TypeError):
            return 0  # an operator without a meta form creates nothing large
        return made.numel() * made.element_size() if isinstance(made, torch.Tensor) else 0

    def _let_go(self, nbytes: int) -> None:
        self.alive -= nbytes
