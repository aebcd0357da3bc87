"""How much of a device others use, as the machine's own tools say it; nothing where none answers."""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from pathlib import Path

from scripts.devices.identity import DeviceIdentity
from scripts.devices.vendor_tools import said

BUSY_PERCENT = 30  # an idle accelerator shows 0, one that draws a desktop a few
LOOKS, PAUSE_S = 4, 0.5  # what ran a moment ago still shows in the first answer
CPU_LOOK_S = 0.1


def busy(device: DeviceIdentity) -> str:
    """That others keep an accelerator busy, as a sentence; "" when it is idle at some look, or not known."""
    found: list[int] = []
    for look in range(LOOKS):
        time.sleep(PAUSE_S if look else 0)
        percent = _percent(device)
        if percent is None or percent <= BUSY_PERCENT:
            return ""
        found.append(percent)
    return (
        f"{device.name} is busy with other work: {', '.join(map(str, found))} % in {LOOKS} looks, "
        f"{PAUSE_S:g} s apart, and {BUSY_PERCENT} % is the limit."
    )


def _percent(device: DeviceIdentity) -> int | None:
    return {"cuda": _cuda, "npu": _npu}.get(device.kind, lambda device: None)(device)


def _cuda(device: DeviceIdentity) -> int | None:
    wanted = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-i", device.physical_id]
    answer = said("nvidia-smi", *wanted).strip()
    return int(answer) if answer.isdigit() else None


def _npu(device: DeviceIdentity) -> int | None:
    card, chip = _card(device.physical_id or str(device.index))
    answer = said("npu-smi", "info", "-t", "usages", "-i", card, "-c", chip)
    match = re.search(r"^\s*Aicore Usage Rate\(%\)\s*:\s*(\d+)", answer, re.MULTILINE)
    return int(match[1]) if match else None


def _card(number: str) -> tuple[str, str]:
    """Card and chip of an NPU, which npu-smi counts apart: rows of card, chip, number, name."""
    rows = re.findall(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s", said("npu-smi", "info", "-m"), re.MULTILINE)
    return next(((card, chip) for card, chip, known in rows if known == number), (number, "0"))


def busy_share(cores: Collection[int]) -> float:
    """The share of the next CPU_LOOK_S in which `cores` are at work; 0 where the system does not say."""
    before = _ticks(cores)
    time.sleep(CPU_LOOK_S)
    after = _ticks(cores)
    total = after[1] - before[1]
    return (after[0] - before[0]) / total if total else 0.0


def _ticks(cores: Collection[int]) -> tuple[int, int]:
    """(at work, all) of some cores since the start of the machine, in the kernel's ticks."""
    stat = Path("/proc/stat")
    work = total = 0
    for line in stat.read_text().splitlines() if stat.exists() else ():
        match = re.match(r"cpu(\d+) (.+)", line)
        if match and int(match[1]) in cores:
            user, nice, system, idle, waiting, *rest = map(int, match[2].split()[:8])
            work += user + nice + system + sum(rest)
            total += user + nice + system + idle + waiting + sum(rest)
    return work, total
