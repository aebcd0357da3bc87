"""From a kind of device to what implements it: its class, its analysis, its imports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scripts.devices.base import Device
from scripts.devices.identity import DeviceIdentity


def open_device(identity: DeviceIdentity) -> Device:
    """The implementation for a device that was found on this machine."""
    if identity.kind == "npu":
        from scripts.devices.npu import NpuDevice

        return NpuDevice(identity)
    if identity.kind == "cuda":
        from scripts.devices.cuda import CudaDevice

        return CudaDevice(identity)
    from scripts.devices.cpu import CpuDevice

    return CpuDevice(identity)


def analysis(kind: str) -> Callable[[Path], None] | None:
    """What turns a raw capture folder into the common format in any process; None where only the measuring one can."""
    if kind == "npu":
        from scripts.devices import npu_analysis

        return npu_analysis.analyse
    return None


def preload(kind: str) -> None:
    """Import what a device of this kind needs, without touching one, so that forked children find it imported."""
    if kind == "npu":
        from scripts.devices import npu

        npu.load_backend()  # what goes wrong is kept for the child that opens the device
