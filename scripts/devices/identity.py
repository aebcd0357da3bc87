"""Which devices this machine has, found without importing torch: cheap enough for every start of the workflow."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, util
from pathlib import Path

ORDER = ("npu", "cuda", "cpu")  # what `device: auto` prefers
TOOLKIT = {"npu": "cann", "cuda": "cuda"}  # what a device kind's toolkit is called among the versions
VISIBLE = {"npu": "ASCEND_RT_VISIBLE_DEVICES", "cuda": "CUDA_VISIBLE_DEVICES"}  # they renumber a machine's devices
SETTING = re.compile(r"auto|cpu(?::\d{1,4}(?:-\d{1,4})?)?|(?:cuda|npu)(?::\d{1,4})?")
ALLOWED = "auto, cpu, cpu:0-3 (cores), cuda, cuda:1, npu, npu:0"


@dataclass(frozen=True)
class Survey:
    """What was found of one kind of device."""

    kind: str
    models: tuple[str, ...]  # one per visible device
    ids: tuple[str, ...] = ()  # what each of them is called on the machine, whatever hides the others
    driver: str = ""
    toolkit: str = ""  # CANN or CUDA
    stand_in: bool = False
    looked_for: str = ""  # a sentence, for the message when there is none


@dataclass(frozen=True)
class Told:
    """What a machine says of one kind of its devices, for whoever plans for it elsewhere."""

    survey: Survey
    versions: dict[str, str]


@dataclass(frozen=True)
class DeviceIdentity:
    """The device that a setting means on this machine; `model` is empty when it is not there."""

    kind: str
    index: int
    model: str
    driver: str = ""
    toolkit: str = ""
    stand_in: bool = False
    problem: str = ""  # why the device cannot be used, "" when it can
    physical_id: str = ""  # on the machine: an NPU's number, a GPU's UUID, a part of the CPU's cores ("0-3")
    versions: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """As `device` names it: "cpu", "cpu:0-3", "cuda:1", "npu:0"."""
        if self.kind == "cpu":
            return f"cpu:{self.physical_id}" if self.physical_id else "cpu"
        return f"{self.kind}:{self.index}"

    @property
    def cores(self) -> range:
        """The cores of a part of the CPU; empty for the whole CPU and for any other device."""
        return cores_of(self.physical_id) if self.kind == "cpu" and self.physical_id else range(0)

    @property
    def lock(self) -> str:
        """What every process that means this device locks, whatever number it knows it by (scripts/locks.py)."""
        if self.cores:
            return f"cpu:{self.cores[0]}-{self.cores[-1]}"
        return "cpu" if self.kind == "cpu" else f"{self.kind}:{self.physical_id or self.index}"


@cache
def resolve(setting: str) -> DeviceIdentity:
    """The device that `setting` (`auto`, `cpu`, `cpu:0-3`, `cuda`, `cuda:1`, `npu`, `npu:0`) means here.

    An explicit device that is not there comes back with `problem` set to what was looked for and found.
    """
    if setting == "auto":
        kind = next(kind for kind in ORDER if survey(kind).models)
        return _identity(survey(kind), 0)
    kind, _, index = setting.partition(":")
    if kind == "cpu" and index:
        return _part_of_cpu(cores_of(index))
    return _identity(survey(kind), int(index or 0))


def _identity(found: Survey, index: int) -> DeviceIdentity:
    there = index < len(found.models)
    return DeviceIdentity(
        kind=found.kind,
        index=index,
        model=found.models[index] if there else "",
        driver=found.driver,
        toolkit=found.toolkit,
        stand_in=found.stand_in,
        problem="" if there else _problem(found, index),
        physical_id=found.ids[index] if index < len(found.ids) else "" if found.kind == "cpu" else str(index),
        versions=versions(found.kind),
    )


def _part_of_cpu(cores: range) -> DeviceIdentity:
    """Some cores as a device of their own; its model says how many, so that equal parts are one model."""
    name = str(cores[0]) if len(cores) == 1 else f"{cores[0]}-{cores[-1]}" if cores else ""
    missing = [] if "cpu" in _told else [core for core in cores if core not in usable_cores()]
    problem = "a part of the CPU is written cpu:FIRST-LAST, with the lower core first." if not cores else ""
    if missing:
        usable = ", ".join(f"{run[0]}-{run[-1]}" for run in runs(usable_cores()))
        problem = f"Cores {', '.join(map(str, missing[:8]))} cannot be used by this process; it may use {usable}."
    model = f"{survey('cpu').models[0].rpartition(' × ')[0]} × {len(cores)}"
    return DeviceIdentity("cpu", 0, model, problem=problem, physical_id=name, versions=versions("cpu"))


def cores_of(text: str) -> range:
    """The cores that "2" or "0-3" names; empty when the last one is before the first."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def runs(cores: Iterable[int]) -> list[range]:
    """Core numbers as ranges without gaps, in order."""
    found: list[range] = []
    for core in sorted(cores):
        if found and found[-1].stop == core:
            found[-1] = range(found[-1].start, core + 1)
        else:
            found.append(range(core, core + 1))
    return found


def _problem(found: Survey, index: int) -> str:
    others = ", ".join(
        f"{kind} ({'; '.join(survey(kind).models)})" for kind in ORDER if kind != found.kind and survey(kind).models
    )
    if found.models:
        have = f"{found.kind}:0 to {found.kind}:{len(found.models) - 1}" if len(found.models) > 1 else f"{found.kind}:0"
        return f"Device {found.kind}:{index} is not there: this machine has {have}. Set `device` to one of these."
    return (
        f"No {found.kind} device is usable: {found.looked_for} Found instead: {others}. "
        "Set `device` to one of these, or `auto`."
    )


def versions(kind: str) -> dict[str, str]:
    """What a number depends on besides the device's model: torch, the backend's, on the CPU how threads wait."""
    if kind in _told:
        return dict(_told[kind].versions)
    found = survey(kind)
    known = {"torch": package_version("torch"), "driver": found.driver, TOOLKIT.get(kind, ""): found.toolkit}
    if kind == "npu":
        known["torch_npu"] = package_version("torch_npu")
    if kind == "cpu":
        known["omp_wait_policy"] = os.environ.get("OMP_WAIT_POLICY", "")
    return {name: value for name, value in known.items() if value}


def package_version(package: str) -> str:
    """Version of an installed distribution, "" when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@cache
def survey(kind: str) -> Survey:
    """What this machine has of one kind of device."""
    if kind in _told:
        return _told[kind].survey
    return {"cpu": _survey_cpu, "cuda": _survey_cuda, "npu": _survey_npu}[kind]()


_told: dict[str, Told] = {}


def plan_for(machine: Iterable[Told]) -> None:
    """Have this process take `machine` for the one that it runs on, of now: it plans for it and measures nothing."""
    _told.clear()
    _told.update({told.survey.kind: told for told in machine})
    survey.cache_clear()
    resolve.cache_clear()


def cpu_count() -> int:
    """Cores this process may use now."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def usable_cores() -> frozenset[int]:
    """Cores this process may use, as first asked: a process that has been pinned to some still knows the others."""
    return frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset(range(cpu_count()))


def _survey_cpu() -> Survey:
    return Survey("cpu", (f"{_cpu_model()} × {len(usable_cores())}",))


@cache
def _cpu_model() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        match = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", cpuinfo.read_text(errors="replace"), re.MULTILINE)
        model = match[1].strip() if match else model
    return model


def _survey_cuda() -> Survey:
    looked = "looked for `nvidia-smi` and a CUDA build of torch"
    build = _torch_cuda_build()
    if not shutil.which("nvidia-smi"):
        return Survey("cuda", (), looked_for=f"{looked}; there is no `nvidia-smi`.")
    query = ["nvidia-smi", "--query-gpu=uuid,name,driver_version", "--format=csv,noheader"]
    lines = [line.split(", ") for line in _output(query).splitlines() if line.count(", ") == 2]
    if not lines:
        return Survey("cuda", (), looked_for=f"{looked}; `nvidia-smi` lists no GPU.")
    if not build:
        return Survey("cuda", (), looked_for=f"{looked}; the GPU is there but torch is a build without CUDA.")
    visible = _visible([line[0] for line in lines], os.environ.get("CUDA_VISIBLE_DEVICES"))
    return Survey(
        "cuda",
        tuple(lines[i][1] for i in visible),
        ids=tuple(lines[i][0] for i in visible),
        driver=lines[0][2],
        toolkit=build,
        looked_for=f"{looked}; CUDA_VISIBLE_DEVICES hides every GPU.",
    )


def _visible(uuids: list[str], setting: str | None) -> list[int]:
    """Positions of the GPUs that CUDA will show, in its order; it stops at the first entry that it does not know."""
    if setting is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in (part.strip() for part in setting.split(",")):
        match = [
            i
            for i, uuid in enumerate(uuids)
            if entry == str(i) or (entry.startswith("GPU-") and uuid.startswith(entry))
        ]
        if len(match) != 1:
            break
        chosen += match
    return chosen


def _torch_cuda_build() -> str:
    """CUDA version that torch was built for, read from its version.py without importing torch."""
    spec = util.find_spec("torch")
    if spec is None or not spec.origin:
        return ""
    file = Path(spec.origin).with_name("version.py")
    match = re.search(r"^cuda[^=]*=\s*'([^']+)'", file.read_text(), re.MULTILINE) if file.exists() else None
    return match[1] if match else ""


def _survey_npu() -> Survey:
    if not package_version("torch_npu"):
        return Survey("npu", (), looked_for="looked for the package torch_npu, which is not installed (extra `npu`).")
    answer = _probe_npu()
    if "error" in answer:
        return Survey(
            "npu", (), looked_for=f"torch_npu is installed, but the Ascend runtime does not answer: {answer['error']}."
        )
    return Survey(
        "npu",
        tuple([answer["soc"]] * answer["devices"]),
        ids=_npu_ids(answer["devices"], os.environ.get(VISIBLE["npu"])),
        driver=_first_version(Path("/usr/local/Ascend/driver/version.info")),
        toolkit=_cann_version(),
        stand_in=answer["stand_in"],
        looked_for="torch_npu and the Ascend runtime are there, but the runtime counts 0 devices.",
    )


def _npu_ids(count: int, setting: str | None) -> tuple[str, ...]:
    """The machine's own number of each visible NPU."""
    chosen = [part.strip() for part in (setting or "").split(",") if part.strip()]
    return tuple(chosen[i] if i < len(chosen) else str(i) for i in range(count))


def _probe_npu() -> dict:
    """Ask the Ascend runtime in a process of its own: initialising it here would forbid forking later."""
    script = Path(__file__).with_name("npu_probe.py")
    try:
        done = subprocess.run([sys.executable, "-I", "-S", str(script)], capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": "no answer within 60 s"}
    except (IndexError, ValueError):
        return {"error": f"the probe ended with code {done.returncode}: {done.stderr.strip()[-200:] or 'no output'}"}


def _cann_version() -> str:
    home = os.environ.get("ASCEND_TOOLKIT_HOME") or os.environ.get("ASCEND_HOME_PATH")
    if not home:
        return ""
    arch = f"{platform.machine()}-linux"
    places = [
        Path(home, arch, "ascend_toolkit_install.info"),
        Path(home, "ascend_toolkit_install.info"),
        Path(home, "version.cfg"),
        Path(home, "version.info"),
    ]
    return next((version for version in map(_first_version, places) if version), "")


def _first_version(file: Path) -> str:
    try:
        match = re.search(r"version\w*\s*=\s*\[?([\w.]+)", file.read_text(errors="replace"), re.IGNORECASE)
    except OSError:
        return ""
    return match[1] if match else ""


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
