"""What the vendors' own tools say (nvidia-smi, npu-smi)."""

from __future__ import annotations

import shutil
import subprocess


def said(*command: str) -> str:
    """What a command prints; "" where there is no such tool, or it does not answer within 30 s."""
    if not shutil.which(command[0]):
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
