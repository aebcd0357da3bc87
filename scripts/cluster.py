"""Jobs on other machines: what the run that plans hands over to them, so that they do what was planned, and once.

An executor plugin starts this workflow again on the machine of a job, for the targets of the job's group. There it
reads the plan that the first process saved, and makes no plan of its own: cases.yaml and the code may have been edited
while the job waited, the machine may have other devices, and planning costs time for every case. What cannot be kept of
the plan there is refused by the process that measures. See docs/cluster.md.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from snakemake.io import flag

from scripts.plan import Plan

PLAN_VARIABLE = "GOLDENPROF_PLAN"


def pass_on(workflow: Any, device: str) -> None:
    """Have every Snakemake that this one starts know what this one was told, in what executors leave out.

    A profile is read by the first process only. Without `keep-going` one broken golden would cost a job its other
    cases; Slurm's executor starts a second Snakemake from the first one on the node, and without the groups would start
    one, with a warm parent of its own, for every case.
    """
    factory = workflow.spawned_job_args_factory
    general_args = factory.general_args
    factory.general_args = lambda *args, **kwargs: (
        f"{general_args(*args, **kwargs)} {_left_out(workflow, factory, device)}"
    )


def _left_out(workflow: Any, factory: Any, device: str) -> str:
    devices = workflow.global_resources[device].value
    return " ".join(
        (
            factory.get_group_args(),
            factory.workflow_property_to_arg("execution_settings.keep_going"),
            factory.workflow_property_to_arg("execution_settings.use_threads", flag="--force-use-threads"),
            "" if devices is None else f"--resources {device}={devices}",
        )
    )


def hand_over(plan: Plan, workflow: Any) -> None:
    """Save the plan where the jobs of this run find it, and have the executor tell them where."""
    os.environ[PLAN_VARIABLE] = os.pathsep.join(str(rooted.saved) for rooted in plan.all_rooted())
    workflow.register_envvars(PLAN_VARIABLE)


def handed_over() -> list[Path]:
    """The saved plans of the run that this process is a job of; none where they cannot be read from here."""
    files = [Path(file) for file in os.environ.get(PLAN_VARIABLE, "").split(os.pathsep) if file]
    return files if all(file.is_file() for file in files) else []


def stays_in_its_job(path: str) -> Any:
    """Mark an output that a later step of the same job removes: nobody outside waits for it."""
    return flag(path, "nodelocal")
