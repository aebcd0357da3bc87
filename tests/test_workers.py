"""Worker processes: what a step raises comes back, a worker that dies is a failure of its case, none is left behind."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from scripts.cases import Case, Settings
from scripts.errors import ArtifactError, CaseFailure
from scripts.plan import PlannedCase
from scripts.status import Status
from scripts.workers import Workers

ROOT = Path(__file__).resolve().parents[1]
PLANNED = PlannedCase(
    Case("some_golden", "case", "", None, "A", (), Settings(device="cpu")), "0123456789ab-cpu-01234567"
)


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def mine() -> list[psutil.Process]:
    return [process for process in psutil.Process().children() if "scripts.workers" in process.cmdline()]


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.chdir(tmp_path)
    PLANNED.folder.mkdir(parents=True)
    made = Workers(2)
    yield made
    for process in mine():
        process.kill()
        process.wait()


def test_an_error_of_a_step_comes_back_as_itself(workers: Workers) -> None:
    with pytest.raises(ArtifactError, match=r"profile\.json"):
        workers.do("locate_output", PLANNED, "x.log")


def test_a_failure_keeps_its_status_and_its_advice() -> None:
    sent = pickle.loads(pickle.dumps(CaseFailure(Status.NO_KERNELS, "Nothing.", "Look.")))
    assert (sent.status, sent.message, sent.advice, str(sent)) == (Status.NO_KERNELS, "Nothing.", "Look.", "Nothing.")


def test_one_worker_does_many_steps_and_no_more_are_started_than_are_allowed(workers: Workers) -> None:
    def ask() -> None:
        with pytest.raises(ArtifactError):
            workers.do("locate_output", PLANNED, "x.log")

    ask()
    ask()
    assert len(mine()) == 1
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(mine()) <= 2


def test_a_worker_that_is_killed_is_a_failure_of_its_case_and_the_next_case_gets_another(workers: Workers) -> None:
    os.mkfifo(PLANNED.folder / "profile.json")  # reading it never ends
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            workers.do("locate_output", PLANNED, "x.log")
        except CaseFailure as failure:
            raised.append(failure)

    thread = threading.Thread(target=ask)
    thread.start()
    until(mine)
    mine()[0].kill()
    thread.join(20)
    (failure,) = raised
    assert isinstance(failure, CaseFailure)
    assert failure.status is Status.INCOMPLETE
    assert "locate_output of some_golden/case: the process that did it was killed by SIGKILL" in failure.message
    (PLANNED.folder / "profile.json").unlink()
    with pytest.raises(ArtifactError):
        workers.do("locate_output", PLANNED, "x.log")


def test_a_fault_of_the_program_comes_back_with_its_frames(workers: Workers) -> None:
    with pytest.raises(RuntimeError, match="Traceback"):
        workers.do("fly", PLANNED, "x.log")


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    code = (
        "import os\nfrom scripts.workers import Workers\nfrom tests.test_workers import PLANNED, mine\n"
        "try:\n    Workers(1).do('locate_output', PLANNED, 'x.log')\nexcept Exception:\n    pass\n"
        "print(mine()[0].pid, flush=True)\nos._exit(0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    until(lambda: not psutil.pid_exists(int(done.stdout)))
