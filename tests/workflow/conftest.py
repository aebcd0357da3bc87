"""Whole-workflow tests: the real Snakefile, run by the real Snakemake, in a temporary project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from scripts import artifacts
from scripts.artifacts import FailureRecord, PerfRecord

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = Path(__file__).with_name("goldens")
SNAKEMAKE = [
    sys.executable,
    "-m",
    "snakemake",
    "-s",
    str(ROOT / "Snakefile"),
    "--workflow-profile",
    str(ROOT / "profiles/default"),
]
FINISHED = re.compile(r"^Finished jobid: \d+ \(Rule: (\w+)\)", re.MULTILINE)
# A rule with a message of its own is announced by it: "Job 3: make_inputs of …".
PLANNED = re.compile(r"^(?:(?:local)?rule |Job \d+: )(\w+)(?::| of )", re.MULTILINE)


@dataclass
class Run:
    """What one call of snakemake said."""

    code: int
    output: str

    @property
    def finished(self) -> list[str]:
        """The rules of the jobs that finished, in order, but for the target `all`."""
        return [rule for rule in FINISHED.findall(self.output) if rule != "all"]

    @property
    def planned(self) -> list[str]:
        """The rules of the jobs that a dry run lists, but for the target `all`."""
        return [rule for rule in PLANNED.findall(self.output) if rule != "all"]

    @property
    def nothing_to_do(self) -> bool:
        return "Nothing to be done" in self.output


@dataclass
class Project:
    """A folder with a cases file and goldens of its own."""

    path: Path

    def cases(self, text: str) -> None:
        """Write config/cases.yaml."""
        (self.path / "config").mkdir(exist_ok=True)
        (self.path / "config/cases.yaml").write_text(textwrap.dedent(text))

    def golden(self, name: str, text: str) -> None:
        """Write golden/<name>.py."""
        (self.path / "golden").mkdir(exist_ok=True)
        (self.path / f"golden/{name}.py").write_text(textwrap.dedent(text))

    def command(self, *arguments: str) -> list[str]:
        """The command line of a run in this project."""
        return [*SNAKEMAKE, "--directory", str(self.path), *arguments]

    def run(self, *arguments: str, timeout_s: float = 300, **environment: str) -> Run:
        """Run snakemake in the project and wait for it."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.path,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        return Run(done.returncode, done.stdout)

    def folder(self, case: str) -> Path:
        """The one key folder of a case."""
        (found,) = [path for path in (self.path / "prof" / case).iterdir() if path.is_dir() and not path.is_symlink()]
        return found

    def perf(self, case: str) -> PerfRecord:
        """perf.json of a case."""
        return artifacts.read(self.folder(case) / "perf.json", PerfRecord)

    def failure(self, case: str) -> FailureRecord:
        """failure.json of a case."""
        return artifacts.read(self.folder(case) / "failure.json", FailureRecord)

    def report(self, case: str) -> str:
        """The text of a case's report."""
        return (self.path / f"reports/{case}.md").read_text()

    def processes_after_a_moment(self, seconds: float = 5) -> list[str]:
        """What still lives here some seconds after a run: the warm parent ends when it sees its session end."""
        deadline = time.monotonic() + seconds
        while (found := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def processes(self) -> list[str]:
        """Command lines of living processes that work in this project."""
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and int(process.name) != os.getpid():
                try:
                    if (process / "cwd").resolve() == self.path:
                        found.append((process / "cmdline").read_text().replace("\0", " "))
                except OSError:
                    continue
        return [line for line in found if line]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project whose `golden/` holds the small goldens of these tests."""
    return new_project(tmp_path)


@pytest.fixture(scope="session")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    """Makes projects that several tests look at after one run."""
    return lambda name: new_project(tmp_path_factory.mktemp(name))


def new_project(path: Path) -> Project:
    """A project in `path` with the goldens of these tests."""
    shutil.copytree(GOLDENS, path / "golden", ignore=shutil.ignore_patterns("__pycache__"))
    return Project(path.resolve())


def decode(path: Path) -> dict:
    """A JSON file as plain values."""
    return msgspec.json.decode(path.read_bytes())


@pytest.fixture(scope="session", autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Device locks of these tests in a folder of their own, so that another run on this machine is not waited for."""
    before = os.environ.get("GOLDENPROF_LOCK_DIR")
    os.environ["GOLDENPROF_LOCK_DIR"] = str(tmp_path_factory.mktemp("locks"))
    yield
    os.environ.pop("GOLDENPROF_LOCK_DIR", None)
    if before is not None:
        os.environ["GOLDENPROF_LOCK_DIR"] = before
