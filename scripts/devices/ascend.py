"""What is known of Ascend machines without torch: names that torch_npu uses, and checks of an installation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts.devices import identity
from scripts.findings import Finding, ok, problem, warning

# With either of these set the profiler is silently off.
PROFILER_SWITCHES = ("PROFILING_MODE", "PROFILER_SAMPLECONFIG")
# Op types under which the noise, `torch.max` of a whole tensor, is known to appear.
NOISE_TYPES = ("ReduceMax", "ReduceMaxAiCore", "ReduceMaxD")
SET_ENV = "source the toolkit's set_env.sh, usually /usr/local/Ascend/ascend-toolkit/set_env.sh"


def installed() -> bool:
    """Whether torch_npu is installed, usable or not."""
    return bool(identity.package_version("torch_npu"))


def findings(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """The checks of an Ascend installation; nothing where torch_npu is not installed."""
    if not installed():
        return
    yield pair(identity.package_version("torch"), identity.package_version("torch_npu"))
    yield cann(environment, identity.survey("npu").toolkit)
    yield driver(identity.survey("npu").driver)
    yield msprof(shutil.which("msprof", path=environment.get("PATH", "")))
    yield from switches(environment)
    yield visible_devices(environment, len(identity.survey("npu").models))


def pair(torch: str, torch_npu: str) -> Finding:
    """torch_npu is built for one version of torch."""
    if torch.split("+")[0].split(".post")[0] == torch_npu.split(".post")[0]:
        return ok("torch_npu", f"{torch_npu} fits torch {torch}")
    advice = f"install torch=={torch_npu.split('.post')[0]}, or the torch_npu for torch {torch}"
    return problem("torch_npu", f"{torch_npu} is not built for torch {torch or 'that is not installed'}", advice)


def cann(environment: Mapping[str, str], version: str) -> Finding:
    """CANN as its own environment variables show it."""
    home = environment.get("ASCEND_TOOLKIT_HOME") or environment.get("ASCEND_HOME_PATH")
    if not home:
        return problem("CANN", "neither ASCEND_TOOLKIT_HOME nor ASCEND_HOME_PATH is set", SET_ENV)
    if not Path(home).is_dir():
        return problem("CANN", f"{home}, which the environment names, is not there", SET_ENV)
    if not version:
        return warning("CANN", f"{home} does not say its version", "reports will not name it; check the installation")
    return ok("CANN", f"{version} in {home}")


def driver(version: str) -> Finding:
    """The driver's version, which numbers depend on."""
    if version:
        return ok("driver", version)
    advice = "install the driver, or mount /usr/local/Ascend/driver into the container"
    return warning("driver", "/usr/local/Ascend/driver/version.info does not say its version", advice)


def msprof(path: str | None) -> Finding:
    """The analysis of a capture is done by msprof, found on PATH, and a script that is looked for beside it."""
    if path is None:
        return problem("msprof", "not on PATH: no capture could be analysed", SET_ENV)
    prefix = os.path.realpath(path).partition("tools")[0]
    script = Path(prefix, "tools/profiler/profiler_tool/analysis/msprof/msprof.py")
    if not script.is_file():
        return problem("msprof", f"{path} is there, but {script} is not: torch_npu will not use it", SET_ENV)
    return ok("msprof", path)


def switches(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Variables that turn torch_npu's profiler off without a word."""
    found = [name for name in PROFILER_SWITCHES if name in environment]
    for name in found:
        text = f"{name}={environment[name]} is set: it turns torch_npu's profiler off"
        yield warning("environment", text, "goldenprof unsets it for its own runs; unset it for yours")
    if not found:
        yield ok("environment", f"{' and '.join(PROFILER_SWITCHES)} are not set")


def visible_devices(environment: Mapping[str, str], count: int) -> Finding:
    """Which device of the machine each `npu:<index>` is."""
    setting = environment.get("ASCEND_RT_VISIBLE_DEVICES")
    if setting is None:
        return ok("device ids", "ASCEND_RT_VISIBLE_DEVICES is not set: npu:<index> is the machine's own number")
    ids = [part.strip() for part in setting.split(",") if part.strip()]
    if len(ids) != count:
        text = f"ASCEND_RT_VISIBLE_DEVICES={setting} names {len(ids)} devices, and the runtime shows {count}"
        return warning("device ids", text, "correct it: `npu-smi info` lists the devices of the machine")
    names = ", ".join(f"npu:{index} is device {number}" for index, number in enumerate(ids))
    return ok("device ids", f"ASCEND_RT_VISIBLE_DEVICES={setting}: {names}")
