"""A Slurm of one node, this machine, with everything that it writes in one folder. Needs root, slurm-wlm and munge."""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import psutil

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
START_S = 30
# A node counts as dead when it has not answered for so long.
DEAD_S = 10
CONF = """\
ClusterName=small
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=1,sched_min_interval=100000
SlurmdTimeout={dead_s}
KillWait=5
MinJobAge=600
ReturnToService=2
MailProg=/bin/true
GresTypes=npu
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mb} Gres=npu:{devices} State=UNKNOWN
PartitionName=main Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


class SmallSlurm:
    """A context manager; its commands take `environment`. The node has `devices` of a kind `npu`, which only count."""

    def __init__(self, folder: Path, cpus: int = 8, memory_mb: int = 64000, devices: int = 2) -> None:
        self.folder = folder
        self.node = platform.node().partition(".")[0]
        self.conf = folder / "slurm.conf"
        tools = folder / "bin"
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "SLURM_CONF": str(self.conf), "PATH": path}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("state", "spool", "bin"):
            (folder / name).mkdir(parents=True)
        # The executor plugin calls it on the node without this variable, as if its file lay in /etc.
        srun = tools / "srun"
        srun.write_text(f'#!/bin/sh\nSLURM_CONF={self.conf} exec {shutil.which("srun")} "$@"\n')
        srun.chmod(0o755)
        folder.chmod(0o755)
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o600)
        self.conf.write_text(
            CONF.format(
                folder=folder,
                node=self.node,
                ports=_free_ports(2),
                dead_s=DEAD_S,
                cpus=cpus,
                memory_mb=memory_mb,
                devices=devices,
            )
        )
        (folder / "gres.conf").write_text(f"NodeName={self.node} Name=npu Count={devices}\n")

    def __enter__(self) -> SmallSlurm:
        names = {"socket": "socket", "key-file": "key", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
        files = [f"--{option}={self.folder}/munge.{name}" for option, name in names.items()]
        self._start("munged", "munged", "--foreground", "--force", *files)
        self._wait_until(lambda: (self.folder / "munge.socket").exists(), "munged listens")
        self._start("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
        self.start_node()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_node()
        for name in ("slurmctld", "munged"):
            self._daemons[name].terminate()
            self._daemons[name].wait()
        if left := [" ".join(process.cmdline()) for process in self._of_jobs()]:
            raise RuntimeError(f"Slurm has left processes behind: {left}")

    def start_node(self) -> None:
        """Have the node join, and wait until it takes jobs."""
        self._start("slurmd", "slurmd", "-D", "-f", str(self.conf))
        self._wait_until(lambda: self.node_state().startswith(("IDLE", "MIXED", "ALLOC")), "the node takes jobs")

    def kill_node(self) -> None:
        """The end of a node without power: its daemon and everything that its jobs run, at once."""
        daemon = self._daemons.pop("slurmd")
        daemon.kill()
        daemon.wait()
        while found := list(self._of_jobs()):
            for process in found:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.NoSuchProcess:
                    pass
            psutil.wait_procs(found, timeout=1)

    def node_state(self) -> str:
        """As `sinfo` writes it, such as IDLE or DOWN*."""
        return self.output("sinfo", "--noheader", "--format=%T").strip().upper()

    def running(self) -> list[str]:
        """Ids of running jobs."""
        return self.output("squeue", "--noheader", "--states=RUNNING", "--format=%i").split()

    def output(self, *command: str) -> str:
        """What a command of Slurm's prints; "" when it fails, as while slurmctld starts."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _wait_until(self, condition: object, what: str) -> None:
        deadline = time.monotonic() + START_S
        while not condition():  # type: ignore[operator]
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-1500:] for path in sorted(self.folder.glob("*.out")))
                raise RuntimeError(f"within {START_S} s it did not come about that {what}:\n{logs}")
            time.sleep(0.2)

    def _of_jobs(self) -> Iterator[psutil.Process]:
        """What runs on the node for jobs: their steps' daemons, and all that has a job's environment."""
        for process in psutil.process_iter():
            try:
                environment = process.environ()
                if environment.get("SLURM_CONF") == str(self.conf) and (
                    "SLURM_JOB_ID" in environment or process.name().startswith("slurmstepd")
                ):
                    yield process
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue


def missing() -> list[str]:
    """What of Slurm is not installed here."""
    return [name for name in NEEDED if shutil.which(name) is None]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports
