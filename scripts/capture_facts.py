"""What an Ascend capture says of itself beside its rows: versions, schedule, chip, and a digest of its content."""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from scripts.capture_folder import OUTPUT, SUMMARIES, get, infos, open_readonly
from scripts.errors import ConfigError

BLOCK = 2**20


@dataclass(frozen=True)
class CaptureFacts:
    """Facts of one capture; empty where it does not say."""

    digest: str  # SHA-256 (hex) of everything that is read from it
    versions: dict[str, str]  # "torch_npu", "cann"
    model: str
    warmup: int  # steps before the measured ones
    stand_in: bool


def folder_of(path: Path) -> Path:
    """The `*_ascend_pt` folder that `path` means: itself, its parent, or the only one inside it.

    Raises ConfigError when there is none, or several.
    """
    if not path.is_dir():
        raise ConfigError(f"{path} is not a folder. Give the *_ascend_pt folder that torch_npu's profiler has written.")
    if path.name == OUTPUT:
        return path.resolve().parent
    if (path / OUTPUT).is_dir() or path.name.endswith("_ascend_pt"):
        return path
    inside = sorted(entry for entry in path.glob("*_ascend_pt") if entry.is_dir())
    if len(inside) == 1:
        return inside[0]
    found = f"holds {len(inside)} of them: {', '.join(entry.name for entry in inside)}" if inside else "holds none"
    raise ConfigError(f"{path} is no *_ascend_pt folder and {found}. Give the one that belongs to the case.")


def read(capture: Path) -> CaptureFacts:
    """The facts of `capture`; raises ConfigError when another profiler than torch_npu's has written it."""
    info = next(infos(capture), None)
    common = get(info, "config", "common_config")
    activities = get(common, "activities") or []
    if activities and "ProfilerActivity.NPU" not in activities:
        raise ConfigError(
            f"{capture} is not a capture of an NPU: it recorded {', '.join(map(str, activities))}. If goldenprof made "
            "it, copy its whole folder prof/<operator>/<case>/<key> instead: that has the inputs and regions, too."
        )
    cann = str(get(info, "cann_version") or "")
    versions = {"torch_npu": str(get(info, "torch_npu_version") or ""), "cann": cann}
    warmup = get(common, "schedule", "warmup")
    return CaptureFacts(
        digest=_digest(capture),
        versions={name: value for name, value in versions.items() if value},
        model=_model(capture),
        warmup=warmup if isinstance(warmup, int) else 0,
        stand_in="stand-in" in cann,
    )


def _model(capture: Path) -> str:
    """The chip's name, which only the database export has."""
    for path in sorted((capture / OUTPUT).glob("*.db")):
        try:
            with open_readonly(path) as connection:
                names = {str(name) for (name,) in connection.execute("SELECT name FROM NPU_INFO") if name}
        except sqlite3.Error:
            continue
        if len(names) == 1:
            return names.pop()
    return ""


def _digest(capture: Path) -> str:
    total = hashlib.sha256()
    folders = [capture / OUTPUT, *(folder for pattern in SUMMARIES for folder in capture.glob(pattern))]
    files = [*capture.glob("profiler_*.json"), *(file for folder in folders for file in folder.rglob("*"))]
    for path in sorted(file for file in files if file.is_file()):
        total.update(f"{path.relative_to(capture).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                total.update(block)
    return total.hexdigest()
