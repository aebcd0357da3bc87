"""locate_output: which file of a capture the numbers are read from, or why there is none.

Nothing but the data is believed: `analyse.done` is written after failed analyses too, and the profiler's exit code is
always 0. The order is kernel_details.csv, then what msprof left behind (op_summary_*.csv), then the database export.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from scripts import artifacts
from scripts.artifacts import OutputRecord, ProfileRecord
from scripts.capture_folder import OUTPUT, SUMMARIES, get, infos, open_readonly
from scripts.errors import CaseFailure
from scripts.kernel_table import slices
from scripts.status import Status

ANALYSE_AGAIN = (
    'The raw data may still be good: run `python -c "from torch_npu.profiler.profiler import analyse; analyse('
    "'{dir}', max_process_number=1)\"` where msprof is on PATH, then this step again."
)
NO_DEVICE_DATA = (
    "There is no device-side kernel data, so the golden probably ran on the CPU: check torch.npu.is_available() and "
    "torch.npu.device_count(), that the golden's tensors are on the device, and that NPU activity was recorded."
)
NOT_STARTED = (
    "The profiler did not start: check that the versions of torch, torch_npu and CANN belong together, that msprof is "
    "on PATH, and that neither PROFILING_MODE nor PROFILER_SAMPLECONFIG is set; then profile the case again."
)


def run(case_dir: Path) -> None:
    """Write `output.json` of the case in `case_dir`."""
    artifacts.write(case_dir / "output.json", locate(case_dir))


def locate(case_dir: Path) -> OutputRecord:
    """Find the kernels of the capture that `case_dir/profile.json` names; see `find`."""
    return find(case_dir, artifacts.read(case_dir / "profile.json", ProfileRecord))


def find(case_dir: Path, profile: ProfileRecord) -> OutputRecord:
    """Find the kernels of the capture that `profile` names.

    Raises CaseFailure: MISSING_OUTPUT when there are no kernel rows anywhere, PROFILER_FAILED when the capture was made
    at another profiler level than was asked for, INCOMPLETE when it was to record another number of steps.
    """
    capture = _capture(case_dir, profile)
    level = _check_level(capture, profile)
    _check_steps(capture, profile)
    source, kind, why = _source(capture)
    return OutputRecord(
        profiler_dir=capture.relative_to(case_dir).as_posix(),
        source=source.relative_to(case_dir).as_posix(),
        source_kind=kind,
        why=why,
        others=_others(case_dir, capture, source, kind),
        level=level,
    )


def _capture(case_dir: Path, profile: ProfileRecord) -> Path:
    """The one capture of the case; stale or second ones are never chosen between."""
    found = sorted(path.name for path in case_dir.glob("*_ascend_pt") if path.is_dir())
    named = case_dir / profile.profiler_dir if profile.profiler_dir else None
    strangers = [name for name in found if named is None or name != profile.profiler_dir.split("/")[0]]
    if len(strangers) > (0 if named else 1):
        raise _missing(
            f"{case_dir} holds {len(found)} captures where one is expected: {', '.join(found)}; profile.json names "
            f"{profile.profiler_dir or 'none'}. A stale or second one could be taken for the case's own.",
            "Remove those that do not belong to this run, or remove the folder and profile the case again.",
        )
    capture = named or (case_dir / found[0] if found else None)
    if capture is None or not capture.is_dir():
        here = ", ".join(sorted(path.name for path in case_dir.iterdir())) or "nothing"
        missing = f"the capture {profile.profiler_dir}" if profile.profiler_dir else "any *_ascend_pt folder"
        again = f"If somebody removed it, remove {case_dir / 'profile.json'} too: the case is then profiled again. "
        raise _missing(f"{case_dir} does not hold {missing}; it holds {here}.", again + NOT_STARTED)
    return capture


def _check_level(capture: Path, profile: ProfileRecord) -> str:
    level = _level(capture)
    if profile.expected_level and level and level != profile.expected_level:
        raise CaseFailure(
            Status.PROFILER_FAILED,
            f"{capture} was captured at {level}, although {profile.expected_level} was asked for.",
            "torch_npu resets settings that it does not accept with a [WARNING] on standard output: look for one in "
            "the case's log, and check that the versions of torch_npu and CANN belong together.",
        )
    return level


def _check_steps(capture: Path, profile: ProfileRecord) -> None:
    """Only a capture whose level was ours to choose has a schedule of ours."""
    active = _info(capture, "common_config", "schedule", "active")
    if profile.expected_level and isinstance(active, int) and active != profile.iterations:
        raise CaseFailure(
            Status.INCOMPLETE,
            f"{capture} was to record {active} steps by its profiler_info.json, and {profile.iterations} iterations "
            "were asked for.",
            "It is not this case's capture: remove the folder and profile the case again.",
        )


def _level(capture: Path) -> str:
    """The level in profiler_info*.json, "" where it is not said."""
    level = _info(capture, "experimental_config", "_profiler_level")
    return level.removeprefix("ProfilerLevel.") if isinstance(level, str) else ""


def _info(capture: Path, *keys: str) -> Any:
    """An entry of `config` in profiler_info*.json, None where none has it (no such file when the process died)."""
    found = (get(info, "config", *keys) for info in infos(capture))
    return next((value for value in found if value is not None), None)


def _source(capture: Path) -> tuple[Path, str, str]:
    """(file, source_kind, why) in the order of preference; CaseFailure when no file has kernel rows."""
    output = capture / OUTPUT
    details = output / "kernel_details.csv"
    trouble = _trouble(details)
    if not trouble:
        return details, "kernel_details", "kernel_details.csv is there and has kernel rows"
    summary = _op_summary(capture)
    if summary:
        return summary, "op_summary", f"{trouble}; msprof's own op_summary was kept and has kernel rows"
    database = next((path for path in sorted(output.glob("ascend_pytorch_profiler*.db")) if _has_kernels(path)), None)
    if database:
        return database, "db", f"{trouble}; the database export has kernel rows"
    raise _nothing(capture, output, trouble)


def _trouble(path: Path) -> str:
    """Why a CSV has no rows to read, "" when it has some."""
    if not path.is_file():
        return f"{path.name} does not exist"
    with path.open("rb") as file:
        if not file.readline().strip():
            return f"{path.name} is empty"
        if not any(line.strip() for line in file):
            return f"{path.name} has a header and no rows"
    return ""


def _op_summary(capture: Path) -> Path | None:
    """msprof's summary (the first slice of it); several exports are not chosen between."""
    found = sorted(path for folder in SUMMARIES for path in capture.glob(f"{folder}/op_summary_*.csv"))
    with_rows = [path for path in found if not _trouble(path)]
    exports = {slices(path) for path in with_rows}
    if len(exports) > 1:
        names = ", ".join(path.relative_to(capture).as_posix() for path in with_rows)
        raise _missing(
            f"{capture} has no kernel_details.csv, and several op_summary exports: {names}.",
            "Each may hold the same kernels again, or another device's: keep the one that belongs to the case.",
        )
    return exports.pop()[0] if exports else None


def _has_kernels(database: Path) -> bool:
    try:
        with open_readonly(database) as connection:
            return connection.execute("SELECT 1 FROM COMPUTE_TASK_INFO LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return False


def _nothing(capture: Path, output: Path, trouble: str) -> CaseFailure:
    """The diagnosis of a capture without kernel rows."""
    again = ANALYSE_AGAIN.format(dir=capture)
    if not any(capture.iterdir()):
        return _missing(f"{capture} is empty.", NOT_STARTED)
    if not output.is_dir():
        return _missing(f"{capture} has no ASCEND_PROFILER_OUTPUT: its analysis was not run or failed at once.", again)
    names = sorted(path.name for path in output.iterdir() if path.name != "analyse.done")
    here = f"{output}: {trouble}; the folder holds {', '.join(names) or 'nothing'}."
    if (output / "kernel_details.csv").is_file():
        return _missing(f"{here} Every kernel of the capture was lost.", again)
    if not names:
        return _missing(f"{here} The analysis ended without writing anything (analyse.done proves nothing).", again)
    if "operator_details.csv" in names:
        return _missing(f"{here} operator_details.csv is the host's side only.", NO_DEVICE_DATA)
    if any(name.endswith(".db") for name in names):
        return _missing(
            f"{here} The database holds no kernels (COMPUTE_TASK_INFO is missing or empty).", NO_DEVICE_DATA
        )
    return _missing(here, f"{NO_DEVICE_DATA} {again}")


def _others(case_dir: Path, capture: Path, source: Path, kind: str) -> list[str]:
    """What else lies where the source was found, relative to the case's folder."""
    taken = set(slices(source)) if kind == "op_summary" else {source}
    beside = {path for path in (*capture.iterdir(), *source.parent.iterdir()) if path not in taken}
    return sorted(path.relative_to(case_dir).as_posix() for path in beside)


def _missing(message: str, advice: str) -> CaseFailure:
    return CaseFailure(Status.MISSING_OUTPUT, message, advice)
