"""At what speed a device runs, as its own tools say it: kept beside a night's numbers, never computed with."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.devices.vendor_tools import said

CPUFREQ = Path("/sys/devices/system/cpu/cpu0/cpufreq")
CUDA_FIELDS = ("name", "clocks.sm", "clocks.mem", "clocks.max.sm", "power.draw", "power.limit", "temperature.gpu")
MOST_CHARACTERS = 8000  # of npu-smi's table: eight devices take about 3,000


def of(kind: str) -> dict[str, str]:
    """What the machine says of its devices of one kind; empty where nothing answers."""
    return {"cpu": _cpu, "cuda": _cuda, "npu": _npu}[kind]()


def _cpu() -> dict[str, str]:
    found = {}
    cpuinfo = Path("/proc/cpuinfo")
    speeds = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else []
    if speeds:
        found["cpu MHz"] = ", ".join(speeds)
    for name in ("scaling_governor", "scaling_max_freq"):
        if (file := CPUFREQ / name).exists():
            found[name] = file.read_text().strip()
    return found


def _cuda() -> dict[str, str]:
    lines = said("nvidia-smi", f"--query-gpu=index,{','.join(CUDA_FIELDS)}", "--format=csv,noheader").splitlines()
    found = {}
    for line in lines:
        index, *values = (value.strip() for value in line.split(","))
        if len(values) == len(CUDA_FIELDS):
            found[f"cuda:{index}"] = ", ".join(map(" ".join, zip(CUDA_FIELDS, values, strict=True)))
    return found


def _npu() -> dict[str, str]:
    answer = said("npu-smi", "info").strip()
    return {"npu-smi info": answer[:MOST_CHARACTERS]} if answer else {}
