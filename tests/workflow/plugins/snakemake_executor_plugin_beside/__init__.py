"""A cluster for tests: its jobs are processes beside Snakemake, which start a second Snakemake as Slurm's jobs do.

`BESIDE_BEFORE` is a shell command that runs before each job, as if the job had waited for it: `false` loses the job.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
)
LOGS = Path(".snakemake/beside")


class Executor(RemoteExecutor):
    """Writes what each job prints to LOGS, by the level of its Snakemake."""

    def run_job(self, job: JobExecutorInterface) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        level = "second" if self.workflow.remote_exec else "first"
        log = LOGS / f"{level}-{len(list(LOGS.iterdir()))}.log"
        before = "" if self.workflow.remote_exec else f"{os.environ.get('BESIDE_BEFORE', 'true')} && "
        with log.open("w") as file:
            process = subprocess.Popen(before + self.format_job_exec(job), shell=True, stdout=file, stderr=file)
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=str(process.pid), aux={"process": process}))

    def additional_general_args(self) -> str:
        """What the first Snakemake on the node is told: to start the second one."""
        return "" if self.workflow.remote_exec else "--executor beside --jobs 1 --seconds-between-status-checks 0"

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        for job in active_jobs:
            code = job.aux["process"].poll()
            if code is None:
                yield job
            elif code:
                self.report_job_error(job)
            else:
                self.report_job_success(job)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        for job in active_jobs:
            job.aux["process"].terminate()
