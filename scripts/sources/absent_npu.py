"""Loading files that take an NPU for granted on a machine that has none.

Such files import torch_npu, ask `torch.npu`, or name a device when they are imported. Where torch_npu is not installed,
`pretend` makes all that possible without pretending that there is a device: nothing can be computed on it. `rebind`
then replaces what a file fixed at import by the device that its case runs on.
"""

from __future__ import annotations

import re
import sys
from types import FunctionType, ModuleType
from typing import Any

import torch

from scripts.devices import identity

DEVICE_TEXT = re.compile(r"cpu|(npu|cuda)(:\d+)?")
STAND_IN = "Stands in for torch_npu, which is not installed."
WANTS_NPU = re.compile(r"\bnpu\b|torch_npu", re.IGNORECASE)


def wanted(error: BaseException) -> bool:
    """Whether `error` comes of a missing torch_npu that can be stood in for."""
    return not identity.package_version("torch_npu") and bool(WANTS_NPU.search(str(error))) and not pretended()


def pretended() -> bool:
    """Whether this process has a stand-in for torch_npu."""
    return getattr(sys.modules.get("torch_npu"), "__doc__", "") == STAND_IN


def facts() -> dict[str, str]:
    """What a reader must know of it."""
    return {"torch_npu": "not installed, stood in for while the file was imported"} if pretended() else {}


def pretend() -> None:
    """Let `import torch_npu`, `torch.npu` and `torch.device("npu:0")` work in this process, without a device."""
    if torch._C._get_privateuse1_backend_name() != "npu":
        torch.utils.rename_privateuse1_backend("npu")
    if not hasattr(torch, "npu"):
        torch._register_device_module("npu", _no_device())
    module = ModuleType("torch_npu", STAND_IN)
    module.npu = torch.npu  # type: ignore[attr-defined]
    sys.modules.setdefault("torch_npu", module)


def _no_device() -> ModuleType:
    """`torch.npu` of a machine without NPU: it can be asked, and set to what does not matter."""
    module = ModuleType("torch.npu")
    answers: dict[str, Any] = {
        "is_available": False,
        "is_initialized": False,
        "device_count": 0,
        "current_device": 0,
        "set_device": None,
        "synchronize": None,
        "empty_cache": None,
        "set_compile_mode": None,
        "_is_in_bad_fork": False,
        "manual_seed_all": None,
    }
    for name, answer in answers.items():
        setattr(module, name, lambda *args, _answer=answer, **kwargs: _answer)
    module.config = ModuleType("torch.npu.config")  # type: ignore[attr-defined]
    return module


def rebind(module: ModuleType, device: torch.device) -> str:
    """Put what `module` fixed at import on `device`: devices, their names, default arguments, tensors.

    Returns what was changed, as `DEVICE: npu:0 → cpu`, "" when nothing was.
    """
    changed = []
    for name, value in list(vars(module).items()):
        if name.startswith("__"):
            continue
        new = _replaced(name, value, device)
        if new is not value:
            setattr(module, name, new)
            changed.append(f"{name}: {_place(value)} → {device}")
        elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
            changed += _rebind_defaults(value, device)
    return ", ".join(changed)


def _replaced(name: str, value: Any, device: torch.device) -> Any:
    """`value`, or what stands for it on `device`; a CPU that is not called a device is meant as the host."""
    called_device = "dev" in name.casefold()
    if isinstance(value, torch.device) and (called_device or value.type != "cpu"):
        return value if value == device else device
    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device)
    if isinstance(value, str) and called_device and DEVICE_TEXT.fullmatch(value):
        return value if value == str(device) else str(device)
    return value


def _rebind_defaults(function: FunctionType, device: torch.device) -> list[str]:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    positional = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    keywords = function.__kwdefaults__ or {}
    new = {name: _replaced(name, value, device) for name, value in {**positional, **keywords}.items()}
    changed = [name for name, value in {**positional, **keywords}.items() if new[name] is not value]
    if changed:
        function.__defaults__ = tuple(new[name] for name in positional) or None
        function.__kwdefaults__ = {name: new[name] for name in keywords} or None
    return [f"{function.__name__}({name}=): {_place({**positional, **keywords}[name])} → {device}" for name in changed]


def _place(value: Any) -> str:
    return str(value.device) if isinstance(value, torch.Tensor) else str(value)
