"""`goldenprof import`: perf.json and the report of a capture that was profiled elsewhere, with no device and no torch.

The capture is copied (or linked) to prof/<operator>/<case>/<key>/ and goes through the workflow's own steps. What it
does not say, such as the golden's inputs or a noise kernel, stays unknown: without `--noise-shape` every kernel of a
step counts as the golden's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts import artifacts, capture_facts, kernel_table, locate_output, names, parse_csv, report
from scripts.artifacts import DeviceInfo, Noise, OutputRecord, PerfRecord, ProfileRecord
from scripts.capture_facts import CaptureFacts
from scripts.devices import ascend
from scripts.errors import CaseFailure, ConfigError
from scripts.kernel_table import KernelTable

FLOAT32_BYTES = 4
MARK = "> **IMPORTED**"  # how a report says in its first lines that it was not measured here
UNKNOWN_MODEL = "Ascend NPU of unknown model"


@dataclass(frozen=True)
class Import:
    """What is imported, under which name, and how it is to be read."""

    capture: Path
    operator: str
    case: str
    noise_shape: tuple[int, ...] = ()  # of the float32 buffer whose maximum opens every iteration; () without noise
    iterations: int = 0  # 0: as many as there are Step Ids
    device_id: str = ""  # "": the only one in the capture
    model: str = ""
    link: bool = False

    @property
    def command(self) -> str:
        """Does the same again."""
        words = ["goldenprof", "import", str(self.capture), f"{self.operator}/{self.case}"]
        if self.noise_shape:
            words += ["--noise-shape", ",".join(map(str, self.noise_shape))]
        words += ["--iterations", str(self.iterations)] if self.iterations else []
        words += ["--device-id", self.device_id] if self.device_id else []
        words += ["--model", self.model] if self.model else []
        return shlex.join(words + ["--link"] * self.link)


def add_parser(subparsers: Any, summary: str) -> None:
    """The options of `goldenprof import`."""
    parser = subparsers.add_parser("import", help=summary, description=__doc__)
    parser.add_argument("capture", type=Path, help="the *_ascend_pt folder")
    parser.add_argument("case", metavar="OPERATOR/CASE", help="name for it; it need not be in the cases file")
    parser.add_argument(
        "--noise-shape", metavar="N,N,…", help="shape of the tensor whose maximum was taken before each golden call"
    )
    parser.add_argument("--iterations", type=int, metavar="N", help="golden calls, for a capture without Step Ids")
    parser.add_argument("--device-id", default="", metavar="ID", help="device to take, as in the column Device_id")
    parser.add_argument("--model", default="", help="chip, where the capture does not say it")
    parser.add_argument("--link", action="store_true", help="link the folder instead of copying it")
    parser.add_argument("--report", type=Path, metavar="FILE", help="default: reports/<operator>/<case>.md")


def main(options: argparse.Namespace) -> int:
    """Import one capture and print where its report is."""
    wanted = _wanted(options)
    target = options.report or Path("reports", wanted.operator, f"{wanted.case}.md")
    _check_target(target)
    case_dir = run(wanted, target)
    perf = artifacts.read(case_dir / "perf.json", PerfRecord)
    print(f"{target}: E2E {perf.e2e_us} us, {perf.profile.iterations} iterations, from {case_dir}")
    return 0


def run(wanted: Import, target: Path) -> Path:
    """Import a capture below prof/ and write its report to `target`; returns the case's folder.

    Raises ConfigError for what cannot be imported, CaseFailure when its numbers cannot be read; then nothing is left.
    """
    facts = capture_facts.read(wanted.capture)
    case_dir = Path("prof", wanted.operator, wanted.case, _key(wanted, facts))
    copy = case_dir / _folder_name(wanted.capture)
    shutil.rmtree(case_dir, ignore_errors=True)
    try:
        case_dir.mkdir(parents=True)
        _bring(wanted, copy)
        _measure(wanted, facts, case_dir, copy)
        perf = artifacts.read(case_dir / "perf.json", PerfRecord)
        artifacts.write_bytes(target, _marked(report.render(perf), wanted).encode())
    except BaseException as error:
        _remove(case_dir)
        if isinstance(error, CaseFailure):
            raise _about_the_original(error, copy, wanted.capture) from error
        raise
    return case_dir


def _measure(wanted: Import, facts: CaptureFacts, case_dir: Path, copy: Path) -> None:
    """profile.json, output.json and perf.json; profile.json is completed with what the rows say."""
    profile = _profile(wanted, facts, case_dir.name, copy.name)
    artifacts.write(case_dir / "profile.json", profile)
    locate_output.run(case_dir)
    output = artifacts.read(case_dir / "output.json", OutputRecord)
    table = kernel_table.read(case_dir / output.source, output.source_kind)
    artifacts.write(case_dir / "profile.json", _completed(profile, wanted, table))
    parse_csv.run(case_dir)


def _profile(wanted: Import, facts: CaptureFacts, key: str, folder: str) -> ProfileRecord:
    return ProfileRecord(
        operator=wanted.operator,
        case=wanted.case,
        key=key,
        device=DeviceInfo("npu", "npu", wanted.model or facts.model or UNKNOWN_MODEL, "", facts.stand_in),
        started_at="unknown",
        profiler_dir=folder,
        iterations=wanted.iterations,
        warmup=facts.warmup,
        cache="cold" if wanted.noise_shape else "unknown",
        noise=_noise(wanted.noise_shape),
        restored=[],
        regions=[],
        inputs=[],
        scalars={},
        outputs=[],
        host_wall_us=[],
        profiled_wall_us=[],
        versions=facts.versions,
        environment={},
        settings={"imported_from": str(wanted.capture.absolute()), "iterations": wanted.iterations or "by Step Id"},
        command=wanted.command,
        warnings=list(_warnings(wanted)),
    )


def _noise(shape: tuple[int, ...]) -> Noise:
    if not shape:
        return Noise(0.0, (), "", ())
    elements = 1
    for length in shape:
        elements *= length
    return Noise(elements * FLOAT32_BYTES / 2**20, shape, "float32", ascend.NOISE_TYPES)


def _warnings(wanted: Import) -> list[str]:
    found = [
        f"Imported from {wanted.capture.absolute()}: what was called, with which inputs and after which warm-up, is "
        "what its author says, not what this tool saw."
    ]
    if not wanted.noise_shape:
        found.append(
            "No noise kernel was named (--noise-shape): every kernel of a step counts as the golden's, noise included "
            "if there was any, and the state of the cache is unknown."
        )
    return found


def _completed(profile: ProfileRecord, wanted: Import, table: KernelTable) -> ProfileRecord:
    """`profile` with device, time and iterations as the rows have them."""
    ids = sorted({str(table.device.values[code]) for code in set(table.device.codes.tolist()) if code >= 0})
    if wanted.device_id and ids and wanted.device_id not in ids:
        raise ConfigError(f"{wanted.capture} has no device {wanted.device_id}. Devices there: {', '.join(ids)}.")
    if len(ids) > 1 and not wanted.device_id:
        raise ConfigError(f"{wanted.capture} has kernels of devices {', '.join(ids)}. Choose one with --device-id.")
    physical = wanted.device_id or "".join(ids)
    device = replace(profile.device, name=f"npu:{physical}" if physical else "npu", physical_id=physical)
    started = min(table.start_ns.tolist(), default=0)
    return replace(
        profile,
        device=device,
        started_at=datetime.fromtimestamp(started / 1e9, UTC).isoformat(),
        iterations=wanted.iterations or _step_count(wanted, table),
    )


def _step_count(wanted: Import, table: KernelTable) -> int:
    own = table.device.where(lambda device: str(device) == wanted.device_id) if wanted.device_id else slice(None)
    steps = {code for code in table.step_id.codes[own].tolist() if code >= 0}
    if not steps:
        raise ConfigError(
            f"{table.paths[0].name} in {wanted.capture} has no Step Ids, so it does not say how many golden calls it "
            "holds. Say it with --iterations."
        )
    return len(steps)


def _key(wanted: Import, facts: CaptureFacts) -> str:
    """Content of the capture and how it is read, then what made it: re-importing the same finds the same folder."""
    reading = json.dumps([wanted.noise_shape, wanted.iterations, wanted.device_id])
    content = hashlib.sha256(f"{facts.digest}{reading}".encode()).hexdigest()
    machine = json.dumps([wanted.model or facts.model, facts.stand_in, sorted(facts.versions.items())])
    return f"{content[:12]}-npu-{hashlib.sha256(machine.encode()).hexdigest()[:8]}"


def _folder_name(capture: Path) -> str:
    name = capture.resolve().name
    return name if name.endswith("_ascend_pt") else f"{name}_ascend_pt"


def _bring(wanted: Import, copy: Path) -> None:
    if wanted.link:
        copy.symlink_to(wanted.capture.resolve(), target_is_directory=True)
    else:
        shutil.copytree(wanted.capture, copy, ignore_dangling_symlinks=True)


def _marked(text: str, wanted: Import) -> str:
    """The report, saying under its title that it was imported and from where."""
    title, _, rest = text.partition("\n")
    source = str(wanted.capture.absolute()).replace("`", "'").replace("\n", " ")
    return f"{title}\n\n{MARK} from `{source}`: profiled elsewhere, not by this tool.\n{rest}"


def _remove(case_dir: Path) -> None:
    """The case's folder, and the folders above it that are then empty; a linked capture stays untouched."""
    shutil.rmtree(case_dir, ignore_errors=True)
    for parent in case_dir.parents[:2]:
        try:
            parent.rmdir()
        except OSError:
            break


def _about_the_original(failure: CaseFailure, copy: Path, original: Path) -> CaseFailure:
    """The same failure, naming the user's file instead of the copy that is no longer there."""
    message, advice = (text.replace(str(copy), str(original)) for text in (failure.message, failure.advice))
    return CaseFailure(failure.status, message, advice)


def _wanted(options: argparse.Namespace) -> Import:
    """The command line, checked."""
    operator, slash, case = options.case.partition("/")
    if trouble := names.operator_problem(operator) or names.problem(case):
        hint = "" if slash else " Give OPERATOR/CASE, such as my_softmax/big."
        raise ConfigError(f"{trouble}{hint}")
    if options.iterations is not None and options.iterations < 1:
        raise ConfigError(f"--iterations {options.iterations} is not possible. Allowed: 1 or more.")
    return Import(
        capture=capture_facts.folder_of(options.capture),
        operator=operator,
        case=case,
        noise_shape=_shape(options.noise_shape) if options.noise_shape else (),
        iterations=options.iterations or 0,
        device_id=options.device_id,
        model=options.model,
        link=options.link,
    )


def _shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(part) for part in text.strip("()[]").split(",") if part.strip())
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise ConfigError(f"--noise-shape {text!r} is no shape. Give lengths with commas, such as 96,1024,1024.")
    return shape


def _check_target(target: Path) -> None:
    """Never write an imported report over a measured one."""
    if target.exists() and MARK not in target.read_text(encoding="utf-8", errors="replace"):
        raise ConfigError(
            f"{target} is a report of a case that was measured here. Give the import another case name, or --report."
        )
