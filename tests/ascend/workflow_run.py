"""A sweep of the whole workflow on the stand-in, and what each of its cases sent to the runtime."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from scripts.artifacts import PerfRecord
from tests.workflow.conftest import ROOT, Project, Run

from .stand_in import Ascend, Call, Launch

MAIN = "attention_golden/perf_p0_small"
# Goldens that neither branch on values nor call an operator that the stand-in has no way for.
TEN = (
    "attention_golden",
    "softmax_amax_golden",
    "per_token_int8_quant_golden",
    "glm_paged_attention_golden",
    "rms_norm_golden",
    "interleave_rope_golden",
    "swiglu_mlp_golden",
    "apply_adam_w_v2_golden",  # mutates its inputs
    "mla_prolog_golden",
    "lightning_indexer_golden",
)
ITERATIONS, WARMUP = 2, 1
SETTINGS = ("--config", f"iterations={ITERATIONS}", f"warmup={WARMUP}", "noise_mib=8")


@dataclass(frozen=True)
class Sweep:
    """A project after its cases were profiled on `npu:0`, and the runtime's log of all of its processes."""

    project: Project
    environment: dict[str, str]
    run: Run
    log: Path

    def traffic(self, case: str) -> Traffic:
        """What the process that measured `case` sent to the runtime."""
        perf = self.project.perf(case)
        pid = int(perf.profile.profiler_dir.split("_")[-4])
        launches = [launch for launch in Ascend.launch_log(self.log) if launch.pid == pid]
        return Traffic(perf, launches, [call for call in Ascend.call_log(self.log) if call.pid == pid])


@dataclass(frozen=True)
class Traffic:
    """Launches and calls of one measuring process, in the order in which they reached the runtime."""

    perf: PerfRecord
    launches: list[Launch]
    calls: list[Call]

    def call(self, name: str) -> Call:
        """The only call of that name."""
        (found,) = [call for call in self.calls if call.name == name]
        return found

    def between(self, first: str, last: str) -> list[Launch]:
        """Launches after one call and before another; "" is the process's beginning or end."""
        begin = self.call(first).ns if first else 0
        end = self.call(last).ns if last else 2**63
        return [launch for launch in self.launches if begin < launch.host_start_ns < end]

    def is_noise(self, launch: Launch) -> bool:
        """Whether this is the kernel that opens an iteration, by what profile.json says of the noise."""
        noise = self.perf.profile.noise
        return launch.op_type in noise.types and launch.inputs[0].shape == noise.shape

    def iterations(self, launches: list[Launch]) -> list[list[Launch]]:
        """What follows each noise kernel, up to the next one."""
        found: list[list[Launch]] = []
        for launch in launches:
            if self.is_noise(launch):
                found.append([])
            elif found:
                found[-1].append(launch)
        return found


def sweep(ascend: Ascend, folder: Path) -> Sweep:
    """Profile MAIN and the smoke case of every one of TEN; two jobs at a time, which have one device between them.

    `prof` is a link to a folder that everybody may write: profilers refuse such places, and users have them.
    """
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    project = Project((folder / "project").resolve())
    project.path.mkdir()
    (project.path / "prof").symlink_to(elsewhere)
    shutil.copytree(ROOT / "golden", project.path / "golden", ignore=shutil.ignore_patterns("__pycache__"))
    (project.path / "config").mkdir()
    shutil.copy(ROOT / "config/cases.yaml", project.path / "config/cases.yaml")
    log = folder / "log.jsonl"
    environment = ascend.environment(log=log) | {"GOLDENPROF_LOCK_DIR": str(folder / "locks")}
    targets = [f"reports/{MAIN}.md", *(f"reports/{golden}/smoke.md" for golden in TEN)]
    options = ("-j8", "--resources", "device=2", *SETTINGS, "device=npu:0", "--")
    return Sweep(project, environment, project.run(*options, *targets, **environment), log)
