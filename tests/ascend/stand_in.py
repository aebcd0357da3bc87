"""The stand-in CANN as tests use it: the environment for a child process, and what reached the runtime.

torch_npu is never imported here: with it, `import torch` needs a CANN. Only child processes have it on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .build import build_toolkit, install_wheel

# Each of these in the environment changes what torch_npu does, or silences its profiler.
DISTURBING = (
    "PROFILING_MODE",
    "PROFILER_SAMPLECONFIG",
    "ASCEND_WORK_PATH",
    "ASCEND_RT_VISIBLE_DEVICES",
    "RANK",
    "TASK_QUEUE_ENABLE",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
)


@dataclass(frozen=True)
class Tensor:
    """Shape, data type and format as they reached the runtime, for example (64, 96), "FLOAT16", "ND"."""

    shape: tuple[int, ...]
    dtype: str
    format: str


@dataclass(frozen=True)
class Launch:
    """One operator launched on a device; times are epoch nanoseconds, and the device's are made up."""

    pid: int
    device: int
    stream: int
    op_type: str
    core: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    host_start_ns: int
    start_ns: int
    end_ns: int

    @property
    def duration_us(self) -> float:
        return (self.end_ns - self.start_ns) / 1000


@dataclass(frozen=True)
class Call:
    """One call of the runtime or the profiling interface; `arguments` as the runtime noted them."""

    pid: int
    name: str
    ns: int
    arguments: dict


@dataclass(frozen=True)
class Ascend:
    """A built stand-in CANN (`toolkit`) and an unpacked torch_npu (`wheel`)."""

    toolkit: Path
    wheel: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment of a child process that is to see one stand-in device."""
        return self.environment()

    def environment(
        self,
        *,
        log: Path | None = None,
        faults: str = "",
        devices: int = 1,
        msprof: bool = True,
        cpu_values: bool = False,
        extra: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """The environment of a child process: this one's, plus torch_npu and the stand-in.

        `log` is the file that launches and calls are appended to, `faults` what is to go wrong (README.md lists them,
        comma-separated), `msprof` whether it is on PATH, `cpu_values` whether operators also get the CPU's values, and
        `extra` what else to set.
        """
        env = {name: value for name, value in os.environ.items() if name not in DISTURBING}

        def put_first(name: str, *paths: Path) -> None:
            env[name] = os.pathsep.join([*map(str, paths), *filter(None, [env.get(name)])])

        put_first("PYTHONPATH", *([self.toolkit / "cpu_values"] if cpu_values else []), self.wheel)
        if cpu_values:  # operators are then launched at once, not by a thread of their own
            env["TASK_QUEUE_ENABLE"] = "0"
        put_first("LD_LIBRARY_PATH", self.toolkit / "lib64")
        if msprof:
            put_first("PATH", self.toolkit / "tools/profiler/bin")
        env |= {"ASCEND_HOME_PATH": str(self.toolkit), "ASCEND_OPP_PATH": str(self.toolkit / "opp")}
        env |= {"GOLDENPROF_STAND_IN": "1", "STAND_IN_DEVICES": str(devices), "STAND_IN_FAULT": faults}
        env |= {"OMP_NUM_THREADS": "1"}
        if log is not None:
            env["STAND_IN_LOG"] = str(log)
        return env | dict(extra or {})

    def python(
        self, *arguments: str | Path, timeout_s: float = 120, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run this Python with `arguments` in `environment(**options)` and catch its output and exit status."""
        command = [sys.executable, *map(str, arguments)]
        env = self.environment(**options)
        return subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=timeout_s)

    @staticmethod
    def launch_log(path: Path) -> list[Launch]:
        """The launches noted in a log, in the order in which they reached the runtime."""
        return [launch_of(record) for record in read_log(path) if record["kind"] == "launch"]

    @staticmethod
    def call_log(path: Path, name: str | None = None) -> list[Call]:
        """The calls noted in a log, all of them or those of one name."""
        calls = []
        for record in read_log(path):
            if record.pop("kind") == "call" and name in (None, record["name"]):
                calls.append(Call(record.pop("pid"), record.pop("name"), record.pop("ns"), record))
        return calls


def read_log(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def launch_of(record: dict) -> Launch:
    def tensors(side: str) -> tuple[Tensor, ...]:
        return tuple(Tensor(tuple(t["shape"]), t["dtype"], t["format"]) for t in record[side])

    names = ("pid", "device", "stream", "op_type", "core", "host_start_ns", "start_ns", "end_ns")
    return Launch(inputs=tensors("inputs"), outputs=tensors("outputs"), **{name: record[name] for name in names})


def build(folder: Path) -> Ascend:
    """Install torch_npu beside the main environment, build the stand-in under `folder`, and return both.

    Raises StandInUnavailable, with the reason, where either cannot be had.
    """
    wheel = install_wheel()
    return Ascend(build_toolkit(wheel, folder), wheel)
