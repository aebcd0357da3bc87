"""`goldenprof doctor`: check this machine before anything is measured on it.

Versions, devices and settings are looked at; then a small operator is profiled in a process of its own, and must give
kernels: exit codes and installed packages prove nothing. Ends with 1 when there is a problem. `--save FOLDER` keeps the
profiled operator's files and these lines, as evidence of what the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from scripts import artifacts, locks, machine
from scripts.devices import ascend, identity, pool, usage
from scripts.devices.pool import Pool
from scripts.errors import ConfigError
from scripts.findings import Finding, Level, ok, problem, warning
from scripts.formatting import plural
from scripts.plan import ROOT

LEAST_PYTHON = (3, 11)
PROBE_TIMEOUT_S = 600  # starting an NPU and analysing a capture takes a minute or two
LITTLE_DISK_GIB, TIGHT_DISK_GIB = 1, 10
OTHERS_MAY_WRITE = 0o022


def add_parser(subparsers: Any, summary: str) -> None:
    """The options of `goldenprof doctor`."""
    parser = subparsers.add_parser("doctor", help=summary, description=__doc__)
    parser.add_argument(
        "--device",
        default="auto",
        help="profile the small operator here: a device, several with commas, or `all` (default: %(default)s)",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FOLDER", help="keep the small operator's files in this new folder"
    )
    parser.add_argument("--no-run", action="store_true", help="look only, profile nothing")
    parser.add_argument(
        "--machine",
        type=Path,
        metavar="FILE",
        help="write what it has, for `--config machine=FILE` elsewhere",
    )


def main(options: argparse.Namespace) -> int:
    """Print every finding as it is made; 1 when one is a problem."""
    if options.save and options.save.exists():
        raise ConfigError(f"{options.save} exists already. Name a new folder for --save.")
    meant(options.device)
    found: list[Finding] = []
    for finding in findings(options.device, run=not options.no_run, save=options.save):
        print(finding, flush=True)
        found.append(finding)
    if options.save and options.save.is_dir():
        (options.save / "doctor.txt").write_text("".join(f"{finding}\n" for finding in found), encoding="utf-8")
        print(f"\nSaved in {options.save}.")
    if options.machine:
        machine.save(options.machine)
        print(f"\nWritten to {options.machine}.")
    counts = [sum(finding.level is level for finding in found) for level in (Level.PROBLEM, Level.WARNING)]
    print(f"\n{plural(counts[0], 'problem')}, {plural(counts[1], 'warning')}.")
    return 1 if counts[0] else 0


def meant(setting: str) -> tuple[identity.DeviceIdentity, ...]:
    """The devices that `--device` names; ConfigError when it names none."""
    if identity.SETTING.fullmatch(setting):
        return (identity.resolve(setting),)
    if mistakes := list(pool.problems(setting)):
        raise ConfigError(f"--device: {' '.join(mistakes)} Also allowed: auto.")
    return Pool.of(setting).members


def findings(device: str, run: bool = True, save: Path | None = None) -> Iterator[Finding]:
    """Every check, the cheap ones first."""
    chosen, *others = meant(device)
    yield python(sys.version_info[:2])
    yield torch_version(identity.package_version("torch"), required_torch())
    yield from ascend.findings()
    yield from devices(chosen)
    yield cores(identity.cpu_count(), chosen.kind)
    yield umask(artifacts.umask(), chosen.kind)
    yield disk(shutil.disk_usage(Path.cwd()).free)
    yield writable(Path("prof"))
    yield lock_folder()
    for one in (chosen, *others):
        if one.problem:
            yield problem(one.name, one.problem, "see the lines above")
        elif trouble := usage.busy(one):
            yield warning(one.name, trouble, "`devices` passes over it while it is so busy")
        if run and not one.problem:
            yield profiling(one, save / one.name.replace(":", "-") if save and others else save)


def python(version: tuple[int, int]) -> Finding:
    """The interpreter."""
    text = f"{version[0]}.{version[1]} at {sys.executable}"
    if version < LEAST_PYTHON:
        return problem("Python", text, f"use Python {'.'.join(map(str, LEAST_PYTHON))} or newer")
    return ok("Python", text)


def torch_version(installed: str, required: str) -> Finding:
    """torch, against the one version that this project is made for."""
    if not installed:
        return problem("torch", "not installed", f"install torch=={required or 'the version of pyproject.toml'}")
    if required and installed.split("+")[0] != required:
        text = f"{installed}, where this project is tested with {required}"
        return warning("torch", text, "results are kept apart by version; install the tested one if a case fails")
    return ok("torch", installed)


def required_torch() -> str:
    """The version that the project's own metadata pins, "" when it is not installed as a package."""
    try:
        wanted = metadata.requires("goldenprof") or []
    except metadata.PackageNotFoundError:
        return ""
    return next((entry.removeprefix("torch==") for entry in wanted if entry.startswith("torch==")), "")


def devices(chosen: identity.DeviceIdentity) -> Iterator[Finding]:
    """What there is of each kind of device, and why the others cannot be used."""
    if ids := identity.survey("cuda").ids:
        yield ok("device ids", ", ".join(f"cuda:{index} is {uuid}" for index, uuid in enumerate(ids)))
    for kind in identity.ORDER:
        found = identity.survey(kind)
        if found.models:
            versions = ", ".join(f"{name} {value}" for name, value in identity.versions(kind).items())
            stand_in = ", a stand-in that computes nothing" if found.stand_in else ""
            yield ok(kind, f"{'; '.join(found.models)}{stand_in} ({versions})")
        elif kind == chosen.kind:
            yield problem(kind, f"not usable: {found.looked_for}", "install what is missing, or choose another device")
        elif half_installed(kind):
            yield warning(kind, f"not usable: {found.looked_for}", "install the rest if you mean to use it")
        else:
            yield ok(kind, f"not used: {found.looked_for}")


def half_installed(kind: str) -> bool:
    """Whether a part of what a kind of device needs is there, so that its absence may be a mistake."""
    return ascend.installed() if kind == "npu" else kind == "cuda" and shutil.which("nvidia-smi") is not None


def cores(count: int, kind: str) -> Finding:
    """How many cores this process may use."""
    if count > 1:
        return ok("cores", str(count))
    advice = "give it two or more: other work then disturbs the measurement less"
    if kind == "npu":
        advice += "; torch_npu's own analysis fails with one (goldenprof asks for one process, which works)"
    return warning("cores", "this process may use one only", advice)


def umask(mask: int, kind: str) -> Finding:
    """Whether other users may write into what this user makes."""
    text = f"{mask:03o}"
    if mask & OTHERS_MAY_WRITE == OTHERS_MAY_WRITE or kind != "npu":
        return ok("umask", text)
    advice = "goldenprof profiles with 027; set `umask 027` for your own runs, and for prof/ if you made it by hand"
    return warning("umask", f"{text}: torch_npu may refuse folders that others can write", advice)


def disk(free: int) -> Finding:
    """Room for captures where the workflow runs."""
    gib = free / 2**30
    if gib < LITTLE_DISK_GIB:
        return problem("disk", f"{gib:.1f} GiB free in {Path.cwd()}", "free some: a capture that does not fit is lost")
    if gib < TIGHT_DISK_GIB:
        return warning(
            "disk", f"{gib:.1f} GiB free in {Path.cwd()}", "NPU captures take up to twenty times their raw data"
        )
    return ok("disk", f"{gib:.0f} GiB free")


def writable(prof: Path) -> Finding:
    """Whether captures can be written, and by their owner alone."""
    place = prof if prof.exists() else prof.absolute().parent
    if not os.access(place, os.W_OK | os.X_OK):
        return problem("prof/", f"{place.absolute()} cannot be written by {os.getuid()}", "run in a folder of your own")
    if prof.is_symlink():
        return warning(
            "prof/", f"a link to {prof.resolve()}", "torch_npu warns of links; use a plain folder if it fails"
        )
    return ok("prof/", f"can be written in {Path.cwd()}")


def lock_folder() -> Finding:
    """Whether a device can be held against other processes."""
    folder = locks.lock_folder()
    try:
        with locks.hold("doctor"):
            return ok("locks", str(folder))
    except OSError as error:
        advice = f"make {folder} writable for everybody who measures here, or set GOLDENPROF_LOCK_DIR to another folder"
        return problem("locks", f"{error.filename or folder}: {error.strerror}", advice)


def profiling(device: identity.DeviceIdentity, save: Path | None = None) -> Finding:
    """Profile a small operator on `device` in a process of its own; only kernels in its capture count."""
    with tempfile.TemporaryDirectory(prefix="goldenprof-doctor-") as folder:
        Path(folder).chmod(0o750)
        finding = _probe(device, Path(folder))
        if save:
            shutil.copytree(folder, save)
        return finding


def _probe(device: identity.DeviceIdentity, folder: Path, environment: Mapping[str, str] | None = None) -> Finding:
    subject = f"profiling on {device.name}"
    command = [sys.executable, "-m", "scripts.doctor_probe", device.name, str(folder)]
    log = folder / "doctor_probe.log"
    child_environment = {**(os.environ if environment is None else environment)}
    child_environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), child_environment.get("PYTHONPATH"))))
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command, cwd=folder, env=child_environment, stdout=output, stderr=output, timeout=PROBE_TIMEOUT_S
            )
    except subprocess.TimeoutExpired:
        advice = (
            "another process may hold the device, or it hangs: look at npu-smi or nvidia-smi, and at the lock folder"
        )
        return problem(subject, f"no result within {PROBE_TIMEOUT_S} s", advice)
    return outcome(subject, folder / "doctor_probe.json", done.returncode, log.read_text(errors="replace"))


def outcome(subject: str, answer: Path, code: int, log: str) -> Finding:
    """What the probe's answer, or its silence, means."""
    try:
        told = json.loads(answer.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        lines = [line for line in log.splitlines() if line.strip()]
        return problem(subject, f"the process ended with code {code}: {lines[-1] if lines else 'no output'}", _why(log))
    if told["status"] != "ok":
        return problem(subject, f"{told['status']}: {told['message']}", told["advice"])
    return ok(subject, told["message"])


def _why(log: str) -> str:
    """The known causes of a process that dies while it imports torch."""
    if "Failed to load the backend extension" in log:
        return (
            "torch_npu is installed, but CANN cannot be loaded, and then torch cannot be imported: "
            f"{ascend.SET_ENV}; or uninstall torch_npu; or set TORCH_DEVICE_BACKEND_AUTOLOAD=0"
        )
    return f"run it by hand for the whole output: cd {ROOT} && {sys.executable} -m scripts.doctor_probe DEVICE FOLDER"
