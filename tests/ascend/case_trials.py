"""Take cases through the steps of the workflow, each in a forked process, and print how each one ended.

python case_trials.py FILE    where FILE holds a JSON list of trials, each an object with
    name       of the trial
    folder     the case's folder; it is made by the step "make"
    steps      some of make, collect, analyse, locate, parse, in order; before these, what is changed in the process:
               one_core, never_synchronise, first_analysis_fails
    variables  of the environment; null removes one
    device     "npu:0" by default
    golden     name of the function in the golden file FILE.golden.py
    more_path  a folder to put first on sys.path

One JSON object a line: the trial's name, "status", "message" and "advice", and what perf.json says where it was made.
AT_A_TIME trials run at once.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from scripts import artifacts, key, locate_output, make_inputs, parse_csv, profile
from scripts.artifacts import PerfRecord
from scripts.cases import Argument, Case, Settings, TensorSpec
from scripts.devices import identity, npu, opening
from scripts.errors import CaseFailure

AT_A_TIME = 2
ITERATIONS = 3
SETTINGS = {"iterations": ITERATIONS, "warmup": 1, "keep_inputs": True}


def case_of(trial: dict[str, Any], golden: Path) -> Case:
    spec = TensorSpec((64, 96), "float16", "randn")
    settings = Settings(device=trial.get("device", "npu:0"), noise_mib=trial.get("noise_mib", 4.0), **SETTINGS)
    function = trial.get("golden", "plain_golden")
    return Case(function, "trial", str(golden), function, "A", (Argument("x", (spec,)),), settings)


def one_core() -> None:
    os.cpu_count = lambda: 1


def never_synchronise() -> None:
    npu.NpuDevice.synchronize = lambda self: None  # type: ignore[method-assign]


def first_analysis_fails() -> None:
    """msprof is silent the first time."""
    from torch_npu.profiler import profiler

    analyse, faults = profiler.analyse, iter(["msprof_silent", ""])

    def analyse_under_fault(path: str, **options: Any) -> None:
        os.environ["STAND_IN_FAULT"] = next(faults)
        analyse(path, **options)

    profiler.analyse = analyse_under_fault


CHANGES = {
    "one_core": one_core,
    "never_synchronise": never_synchronise,
    "first_analysis_fails": first_analysis_fails,
}


def take(trial: dict[str, Any], golden: Path) -> dict[str, Any]:
    """Do the trial's steps; what came of it."""
    folder, roots = Path(trial["folder"]), (golden.parent,)
    case = case_of(trial, golden)

    def make() -> None:
        wanted = key.key(key.case_digest(case, golden, roots), identity.resolve(case.settings.device))
        make_inputs.run(case, wanted, folder, roots)

    steps = {
        "make": make,
        "collect": lambda: profile.collect(folder, roots, print),
        "analyse": lambda: profile.analyse(folder, print),
        "locate": lambda: locate_output.run(folder),
        "parse": lambda: parse_csv.run(folder),
    }
    try:
        for step in trial["steps"]:
            {**CHANGES, **steps}[step]()
    except CaseFailure as failure:
        return {"status": failure.status, "message": failure.message, "advice": failure.advice, "step": step}
    return {"status": "ok"} | (numbers(folder) if "parse" in trial["steps"] else {})


def numbers(folder: Path) -> dict[str, Any]:
    """What perf.json says."""
    perf = artifacts.read(folder / "perf.json", PerfRecord)
    return {
        "ops": {row.op: row.count for row in perf.ops},
        "kernels": [total.kernels for total in perf.iterations],
        "dropped": [row.rule for row in perf.dropped],
        "warnings": perf.warnings + perf.profile.warnings,
        "source": perf.output.source_kind,
        "attribution": perf.attribution,
        "e2e_us": str(perf.e2e_us),
        "physical_id": perf.profile.device.physical_id,
    }


def start(trial: dict[str, Any], golden: Path, log: Path) -> None:
    """Fork a process for the trial; its result is a line of this process's output, all else goes to `log`."""
    if os.fork():
        return
    result = os.dup(1)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    for name, value in trial.get("variables", {}).items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    sys.path[:0] = [trial["more_path"]] if "more_path" in trial else []
    try:
        answer = take(trial, golden)
    except BaseException as error:
        answer = {"status": f"{type(error).__name__}: {error}"}
    sys.stdout.flush()
    os.write(result, json.dumps({"name": trial["name"], **answer}).encode() + b"\n")
    os._exit(0)


def main(file: Path) -> None:
    opening.preload("npu")
    golden, log = file.with_suffix(".golden.py"), file.with_suffix(".log")
    trials = json.loads(file.read_text())
    for number, trial in enumerate(trials):
        if number >= AT_A_TIME:
            os.wait()
        start(trial, golden, log)
    for _ in trials[-AT_A_TIME:]:
        os.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
