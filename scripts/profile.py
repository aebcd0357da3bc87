"""Step 2: measure a case on its device and keep the profiler's untouched folder.

Runs in a process of its own, forked from the warm parent (scripts/warm), or by hand:

    python -m scripts.profile prof/<operator>/<case>/<key> --into DIR
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import torch

from scripts import artifacts, diagnosis, handout, locate_output, machine, make_inputs, measure, sources, tensors
from scripts.artifacts import DeviceInfo, InputsRecord, Noise, ProfileRecord
from scripts.devices import identity, opening
from scripts.devices.base import Capture, Device
from scripts.errors import CaseFailure, GoldenprofError
from scripts.handout import Phase
from scripts.measure import GoldenCrash, Measurement
from scripts.sources import loading
from scripts.status import Status

# What profile.json is called while the capture beside it is not analysed.
COLLECTED = "collected.json"


def run(
    case_dir: Path, roots: tuple[Path, ...], phase: Phase, into: Path | None = None, among: Sequence[str] = ()
) -> None:
    """Profile the case whose inputs lie in `case_dir`; writes profile.json and the capture to `into` (or `case_dir`).

    The device is a free one of `among`, or else the case's own. Raises CaseFailure with the status that it ends in.
    """
    if collect(case_dir, roots, phase, into, among):
        analyse(into or case_dir, phase)


def collect(
    case_dir: Path,
    roots: tuple[Path, ...],
    phase: Phase,
    into: Path | None = None,
    among: Sequence[str] = (),
    unchecked: Collection[str] = (),
) -> bool:
    """All of `run` that needs the device; True when `analyse` is to follow, best after this process has ended.

    The device is a free one of `among`, or else the case's own: see `handout.device_for`.
    """
    case_dir, shown = case_dir.resolve(), case_dir  # a golden may change the working directory
    target = into.resolve() if into else case_dir
    inputs = artifacts.read(case_dir / "inputs.json", InputsRecord)
    args, kwargs = tensors.load(case_dir / "inputs.pt")
    with handout.device_for(inputs.case.settings.device, among, phase, unchecked) as found:
        machine.check_key(inputs.key, found)
        command = _command(shown, found if among else None)
        _clear(target)
        device = opening.open_device(found)
        phase("running")
        measured, capture, walls = _measure(inputs, device, args, kwargs, roots, target)
        info = device.info()
    to_analyse = opening.analysis(found.kind) is not None
    if not to_analyse:
        phase("finishing")
        capture = device.finish(capture)
    record = _record(inputs, command, found, info, device, measured, capture, walls)
    artifacts.write(target / (COLLECTED if to_analyse else "profile.json"), record)
    if into is None and not to_analyse:
        _drop_inputs(case_dir, inputs.case.settings.keep_inputs)
    return to_analyse


def analyse(case_dir: Path, phase: Phase) -> None:
    """Analyse a collected capture and see that it holds kernels, as many steps and the level that were asked for.

    Only then profile.json is there. Needs no device. Raises CaseFailure with the status that the case ends in.
    """
    phase("analysing")
    collected = case_dir / COLLECTED
    record = artifacts.read(collected, ProfileRecord)
    work = opening.analysis(record.device.kind)
    assert work is not None, "only what can be analysed apart is left collected"
    work(case_dir / record.profiler_dir)
    locate_output.find(case_dir, record)
    collected.rename(case_dir / "profile.json")
    _drop_inputs(case_dir, record.settings["keep_inputs"])


def _measure(
    inputs: InputsRecord,
    device: Device,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    roots: tuple[Path, ...],
    target: Path,
) -> tuple[Measurement, Capture, list[list[Any]]]:
    """Everything that needs the device: check, warm up, time without the profiler, time with it."""
    case, settings = inputs.case, inputs.case.settings
    source = sources.open_source(case, roots)
    function = source.function(device.torch_device)
    inputs.facts.update(source.facts)
    make_inputs.seed_everything(settings.seed)
    try:
        with torch.no_grad():
            measured = measure.prepare(
                device, function, args, kwargs, source.parameters, measure.noise_of(settings, device)
            )
            measured.check()
            measured.count_flops()
            measured.warm_up(settings.warmup)
            unprofiled = measured.host_wall_us(settings.iterations)
            capture = device.capture(measured.iterate, settings.iterations, target)
            profiled = measured.taken_us()[-settings.iterations :]
    except GoldenCrash as crash:
        _clear(target)  # a capture that was cut short looks like a whole one
        if loading.missing_package(crash.error, Path(case.golden)):
            raise loading.failure(Path(case.golden), "cannot be called", crash.error) from crash.error
        advice = diagnosis.diagnose_exception(type(crash.error).__name__, str(crash.error))
        raise CaseFailure(Status.GOLDEN_FAILED, str(crash), str(advice)) from crash.error
    return measured, capture, [unprofiled, profiled]


def _drop_inputs(case_dir: Path, keep: bool) -> None:
    """The tensors can be drawn again, and are large."""
    if not keep:
        (case_dir / "inputs.pt").unlink(missing_ok=True)


def _clear(target: Path) -> None:
    """Remove what an earlier attempt left: a capture is read from exactly one new folder."""
    for path in target.glob("*_ascend_pt"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name in (COLLECTED, "profile.json", "output.json", "perf.json"):
        (target / name).unlink(missing_ok=True)


def _record(
    inputs: InputsRecord,
    command: str,
    found: identity.DeviceIdentity,
    info: DeviceInfo,
    device: Device,
    measured: Measurement,
    capture: Capture,
    walls: list[list[Any]],
) -> ProfileRecord:
    case, settings = inputs.case, inputs.case.settings
    noise: Noise = measure.noise_of(settings, device)
    return ProfileRecord(
        operator=case.operator,
        case=case.case,
        key=inputs.key,
        device=info,
        started_at=datetime.fromtimestamp(capture.regions[0].start_ns / 1e9).astimezone().isoformat()
        if capture.regions
        else datetime.now().astimezone().isoformat(),
        profiler_dir=capture.folder.name,
        iterations=settings.iterations,
        warmup=settings.warmup,
        cache=settings.cache,
        noise=noise,
        restored=list(measured.pristine),
        regions=capture.regions,
        inputs=inputs.tensors,
        scalars=inputs.scalars,
        outputs=measured.outputs,
        host_wall_us=walls[0],
        profiled_wall_us=walls[1],
        versions={"python": platform.python_version(), **found.versions},
        environment=environment(),
        settings={**msgspec.to_builtins(settings), **inputs.facts},
        command=command,
        expected_level=device.level,
        warnings=device.warnings(),
        flops=measured.flops,
        bytes_moved=measured.bytes_moved,
    )


def _command(case_dir: Path, handed: identity.DeviceIdentity | None) -> str:
    """What repeats this run by hand, from any folder, on the device that it was handed."""
    root = Path(__file__).resolve().parent.parent
    place = "" if Path.cwd() == root else f"PYTHONPATH={shlex.quote(str(root))} "
    device = ["--device", handed.name] if handed else []
    again = shlex.join([sys.executable, "-m", "scripts.profile", str(case_dir), *device])
    return f"cd {shlex.quote(os.getcwd())} && {place}{again}"


def environment() -> dict[str, str]:
    """What surrounds a measurement: an allow-list, so that no secret of the environment can get into a report."""
    load = os.getloadavg()
    return {
        "host": platform.node(),
        "os": platform.platform(),
        "cpu": identity.survey("cpu").models[0],
        "threads": str(torch.get_num_threads()),
        "load_1min": f"{load[0]:.2f}",
        **{
            name: os.environ[name]
            for name in ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "TASK_QUEUE_ENABLE")
            if name in os.environ
        },
    }


def main(argv: list[str] | None = None) -> int:
    """Repeat one case's run in this process, from its inputs.json, and print its report."""
    parser = argparse.ArgumentParser(prog="python -m scripts.profile", description=main.__doc__)
    parser.add_argument("case_dir", type=Path, help="prof/<operator>/<case>/<key>")
    parser.add_argument(
        "--into", type=Path, default=Path("prof/.again"), help="folder for the new capture (default: %(default)s)"
    )
    parser.add_argument("--device", default="", help="a device of the same model as the one that the case is for")
    options = parser.parse_args(argv)
    roots = (Path.cwd(), Path(__file__).resolve().parent.parent)
    try:
        print(_repeat(options.case_dir, options.into, roots, options.device))
    except CaseFailure as failure:
        print(f"{failure.status}: {failure.message}\n{failure.advice}", file=sys.stderr)
        return failure.status.exit_code
    except GoldenprofError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _repeat(case_dir: Path, into: Path, roots: tuple[Path, ...], device: str) -> str:
    from scripts import parse_csv, report

    inputs = artifacts.read(case_dir / "inputs.json", InputsRecord)
    into.mkdir(parents=True, exist_ok=True)
    make_inputs.run(inputs.case, inputs.key, into, roots, device)
    run(into, roots, lambda phase: print(f"{phase} …", file=sys.stderr), into, [device] if device else [])
    locate_output.run(into)
    parse_csv.run(into)
    return report.render(artifacts.read(into / "perf.json", artifacts.PerfRecord))


if __name__ == "__main__":
    sys.exit(main())
