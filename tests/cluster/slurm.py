"""Prove a sweep on a real Slurm: one node, this machine, which is killed in the middle of one of the sweeps.

    sudo python tests/cluster/slurm.py

Needs Debian's slurm-wlm and munge, and the extra `cluster`. Everything lies in a temporary folder, and nothing is left
running. Ends with 0 when each sweep on the cluster is equal to the local one in everything but times. About 6 minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.cluster import small_slurm, sweeps  # noqa: E402
from tests.cluster.small_slurm import SmallSlurm  # noqa: E402

CASES_A_JOB = 5
CORES = 2
PATIENCE_S = 240  # until something that must come has come
LOCAL = ["-j2", "--workflow-profile", str(ROOT / "profiles/default")]
CLUSTER = [
    *("--profile", str(ROOT / "profiles/slurm"), "--workflow-profile", str(ROOT / "profiles/default")),
    *("--group-components", f"cases={CASES_A_JOB}"),
    *("--cores", str(CORES), "--set-threads", f"profile={CORES}", f"device_peaks={CORES}"),
    *("--default-resources", "mem_mb=1000", "runtime=2", "gres=npu:1"),
    # What is particular to this Slurm: no accounts, and no data base, which `sacct` would ask.
    *("--slurm-no-account", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"),
]
_started = time.monotonic()
_sweeps: list[subprocess.Popen[bytes]] = []


def say(text: str) -> None:
    """One line of the log."""
    print(f"{time.monotonic() - _started:6.1f} s  {text}", flush=True)


def main() -> int:
    """All of it; 1 when something is not as it must be."""
    lacking = small_slurm.missing() + ([] if util.find_spec("snakemake_executor_plugin_slurm") else ["extra `cluster`"])
    if os.geteuid() != 0 or lacking:
        print(f"This needs root, `apt-get install slurm-wlm munge` and the extra `cluster`; missing: {lacking}.")
        return 1
    with tempfile.TemporaryDirectory(prefix="goldenprof-slurm-") as name:
        folder = Path(name)
        os.environ["GOLDENPROF_LOCK_DIR"] = str(folder / "locks")
        local = sweeps.project(folder / "local")
        code = sweep(local, LOCAL, dict(os.environ)).wait()
        say(f"local: {sweeps.CASES} cases, exit code {code}")
        with SmallSlurm(folder / "slurm") as slurm, ending_sweeps():
            say(f"Slurm is up: node {slurm.node}, {slurm.node_state()}")
            calm = sweeps.project(folder / "calm")
            wrong = undisturbed(slurm, local, calm)
            wrong += broken(slurm, calm)
            wrong += disturbed(slurm, local, sweeps.project(folder / "disturbed"))
        say("Slurm is down; no process of it is left")
    for line in wrong:
        say(f"WRONG: {line}")
    return 1 if wrong or code else 0


def undisturbed(slurm: SmallSlurm, local: Path, project: Path) -> list[str]:
    """A sweep of eight jobs, and a second one that must find nothing to do."""
    code = sweep(project, CLUSTER, slurm.environment).wait()
    say(f"calm: exit code {code}; jobs: {counted(jobs(slurm))}")
    found = sweeps.differences(local, project)
    say(f"calm against local: {len(found)} differences")
    again = sweep(project, CLUSTER, slurm.environment, "again.log").wait()
    if again or "Nothing to be done" not in (project / "again.log").read_text():
        found.append("the sweep after the calm one does not say that nothing is to be done")
    return found if code == 0 else [f"the calm sweep ended with {code}", *found]


def broken(slurm: SmallSlurm, project: Path) -> list[str]:
    """One golden raises: its cases fail, the other cases of its job do not, and all of it is told."""
    before = len(jobs(slurm))
    (project / "golden/add_golden.py").write_text('"""A broken one."""\n\n\ndef add_golden(x):\n    return x[1000]\n')
    (project / "golden/gram_golden.py").write_text('"""A changed one."""\n\n\ndef gram_golden(x):\n    return x + x\n')
    arguments = ["--group-components", "cases=10"]  # both operators in one job
    code = sweep(project, [*CLUSTER, *arguments], slurm.environment, "broken.log").wait()
    status = {(row[0], row[1]): row[2] for row in sweeps.table(project)}
    failed = {operator for (operator, _), found in status.items() if found != "ok"}
    submitted = jobs(slurm)[before:]
    say(f"broken: exit code {code}; jobs: {counted(submitted)}; failed are the cases of {', '.join(failed)}")
    right = code == 1 and failed == {"add_golden"} and len(submitted) == 1
    return [] if right else ["a broken golden costs more than its own cases, or is not told"]


def disturbed(slurm: SmallSlurm, local: Path, project: Path) -> list[str]:
    """One job is cancelled, then the node dies and comes back; the next sweep makes what is missing."""
    before = len(jobs(slurm))
    run = sweep(project, CLUSTER, slurm.environment)
    wait(lambda: len(slurm.running()) == 2, "two jobs run")
    victim = slurm.running()[0]
    slurm.output("scancel", victim)
    say(f"disturbed: job {victim} cancelled")
    wait(lambda: len(measured(project)) > CASES_A_JOB and slurm.running(), "six cases are measured and a job runs")
    slurm.kill_node()
    say("the node is killed, with all that runs on it")
    wait(lambda: slurm.node_state().startswith("DOWN"), "Slurm has seen it")
    slurm.start_node()
    say(f"the node is back: {slurm.node_state()}")
    code, kept = run.wait(), measured(project)
    told = counted(jobs(slurm)[before:])
    say(f"disturbed: exit code {code}; {len(kept)} of {sweeps.CASES} cases measured; jobs: {told}")
    table = [row[2] for row in sweeps.table(project)]
    say(f"its summary: {table.count('ok')} ok, {table.count('not_run')} not run")
    again = sweep(project, CLUSTER, slurm.environment, "again.log").wait()
    found = sweeps.differences(local, project)
    say(f"the next sweep: exit code {again}; jobs so far: {counted(jobs(slurm)[before:])}")
    say(f"disturbed against local: {len(found)} differences")
    if code != 1 or again != 0 or len(kept) == sweeps.CASES:
        found.append(f"the disturbed sweep ended with {code} and {len(kept)} cases, the next one with {again}")
    if set(table) != {"ok", "not_run"} or table.count("ok") > len(kept):
        found.append(f"the summary of the disturbed sweep says {table}")
    if lost := [name for name, when in kept.items() if measured(project).get(name) != when]:
        found.append(f"measured twice: {lost}")
    return found


def sweep(
    project: Path, arguments: list[str], environment: dict[str, str], log: str = "run.log"
) -> subprocess.Popen[bytes]:
    """Start Snakemake in the project."""
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--directory", str(project)]
    with (project / log).open("wb") as file:
        run = subprocess.Popen(
            [*command, *arguments],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    _sweeps.append(run)
    return run


@contextmanager
def ending_sweeps() -> Iterator[None]:
    """No Snakemake outlives this program, whatever ends it."""
    try:
        yield
    finally:
        for run in _sweeps:
            if run.poll() is None:
                run.kill()
                run.wait()


def measured(project: Path) -> dict[Path, int]:
    """The cases that are, each by its profile.json with the number of the file, which a new one does not keep."""
    return {path: (project / path).stat().st_ino for path in sweeps.results(project, "profile.json")}


def jobs(slurm: SmallSlurm) -> list[str]:
    """The state of every job so far, in the order of submission."""
    return slurm.output("squeue", "--states=all", "--noheader", "--sort=i", "--format=%T").split()


def counted(states: list[str]) -> str:
    """Such as "8 COMPLETED, 1 FAILED"."""
    return ", ".join(f"{count} {state}" for state, count in Counter(states).items())


def wait(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition; RuntimeError when it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"within {PATIENCE_S} s it did not come about that {what}")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
