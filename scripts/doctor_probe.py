"""Profile a small operator and say in `doctor_probe.json` what came of it: the workflow's own steps, one after another.

python -m scripts.doctor_probe DEVICE FOLDER
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

from scripts import artifacts, key, locate_output, make_inputs, parse_csv, profile
from scripts.artifacts import PerfRecord
from scripts.cases import Argument, Case, Settings, TensorSpec
from scripts.devices import identity
from scripts.errors import CaseFailure, GoldenprofError
from scripts.handout import Phase
from scripts.plan import ROOT
from scripts.status import Status

GOLDEN = '''
    """A product of two matrices, and its sum with a third."""


    def doctor_golden(a, b, c):
        return a @ b + c
'''
SHAPE = (64, 64)
ITERATIONS = 3
NOISE_MIB = 8.0


def main(device: str, folder: str) -> int:
    """Write `doctor_probe.json` to `folder`; returns 0 when kernels were found."""
    place = Path(folder).resolve()
    try:
        perf = measure(device, place)
        text, advice, status = describe(perf), "", Status.OK
    except CaseFailure as failure:
        text, advice, status = failure.message, failure.advice, failure.status
    except GoldenprofError as error:
        text, advice, status = str(error), "", Status.PROFILER_FAILED
    answer = {"status": status, "message": text, "advice": advice}
    (place / "doctor_probe.json").write_text(json.dumps(answer, indent=1), encoding="utf-8")
    return status.exit_code


def measure(device: str, place: Path, phase: Phase = lambda phase: print(f"{phase} …", flush=True)) -> PerfRecord:
    """The numbers of the small operator on `device`; its files lie in `place`."""
    golden = place / "doctor_golden.py"
    golden.write_text(textwrap.dedent(GOLDEN).lstrip(), encoding="utf-8")
    spec = TensorSpec(SHAPE, "float32", "randn")
    case = Case(
        operator="doctor_golden",
        case="preflight",
        golden=str(golden),
        function=None,
        mode="A",
        arguments=tuple(Argument(name, (spec,)) for name in ("a", "b", "c")),
        settings=Settings(device=device, iterations=ITERATIONS, noise_mib=NOISE_MIB),
    )
    roots = (place, ROOT)
    wanted = key.key(key.case_digest(case, golden, roots), identity.resolve(device))
    case_dir = place / wanted
    make_inputs.run(case, wanted, case_dir, roots)
    profile.run(case_dir, roots, phase)
    locate_output.run(case_dir)
    parse_csv.run(case_dir)
    return artifacts.read(case_dir / "perf.json", PerfRecord)


def describe(perf: PerfRecord) -> str:
    """The result in one line."""
    ops = ", ".join(f"{row.op} {row.mean_us:.1f} us" for row in perf.ops)
    kernels = perf.iterations[0].kernels
    return f"{len(perf.iterations)} iterations of {kernels} kernels each ({ops}); {perf.output.source_kind} was read"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
