"""Worker processes: what a step raises comes back, a worker that dies is a failure of its case, none is left behind."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import psutil
import pytest

from scripts import case_steps, failures, locks, outcomes
from scripts.cases import Case, Settings
from scripts.errors import ArtifactError, CaseFailure
from scripts.locks import Interrupted
from scripts.plan import PlannedCase
from scripts.status import Status
from scripts.workers import Workers

ROOT = Path(__file__).resolve().parents[1]
PLANNED = PlannedCase(
    Case("some_golden", "case", "", None, "A", (), Settings(device="cpu")), "0123456789ab-cpu-01234567"
)


def until(condition: Callable[[], Any], seconds: float = 20) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value


def mine() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # or a zombie
            if "scripts.worker" in child.cmdline():
                found.append(child)
    return found


def kill(worker: psutil.Process) -> None:
    """Kill it and wait, without taking its exit code from who started it."""
    worker.kill()
    with suppress(ChildProcessError):  # who started it has waited already
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)


def reads(worker: psutil.Process) -> bool:
    """Whether it has profile.json open."""
    with suppress(OSError):
        return any(file.name == "profile.json" for file in files_of(worker))
    return False


def files_of(worker: psutil.Process) -> list[Path]:
    """What it has open; psutil lists no named pipes."""
    found = []
    for descriptor in Path(f"/proc/{worker.pid}/fd").iterdir():
        with suppress(OSError):
            found.append(descriptor.readlink())
    return found


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.chdir(tmp_path)
    PLANNED.folder.mkdir(parents=True)
    made = Workers(2)
    yield made
    for process in mine():
        kill(process)


def test_an_error_of_a_step_comes_back_as_itself(workers: Workers) -> None:
    with pytest.raises(ArtifactError, match=r"profile\.json"):
        workers.do("locate_output", [PLANNED], "x.log")


def test_a_failure_keeps_its_status_and_its_advice() -> None:
    sent = pickle.loads(pickle.dumps(CaseFailure(Status.NO_KERNELS, "Nothing.", "Look.")))
    assert (sent.status, sent.message, sent.advice, str(sent)) == (Status.NO_KERNELS, "Nothing.", "Look.", "Nothing.")


class Asked(threading.Thread):
    """A step that is asked for in a thread, and what it raised."""

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self.workers = workers
        self.raised: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.workers.do("locate_output", [PLANNED], "x.log")
        except BaseException as error:
            self.raised = error


def test_one_worker_does_many_steps_and_no_more_are_started_than_are_allowed(workers: Workers) -> None:
    for _ in range(2):
        Asked(workers).join(20)
    assert len(mine()) == 1
    many = [Asked(workers) for _ in range(8)]
    for asked in many:
        asked.join(20)
    assert [type(asked.raised) for asked in many] == 8 * [ArtifactError]
    assert len(mine()) <= 2


def test_a_worker_that_is_killed_is_replaced_once_and_then_its_case_has_failed(workers: Workers) -> None:
    os.mkfifo(PLANNED.folder / "profile.json")
    keep = os.open(PLANNED.folder / "profile.json", os.O_RDWR)  # reading it never ends
    asked, killed = Asked(workers), set[int]()
    for _ in range(2):
        worker = until(lambda: next((one for one in mine() if one.pid not in killed and reads(one)), None))
        killed.add(worker.pid)
        kill(worker)
    os.close(keep)
    asked.join(20)
    failure = asked.raised
    assert isinstance(failure, CaseFailure)
    assert failure.status is Status.INCOMPLETE
    assert "locate_output of some_golden/case: the process that did it was killed by SIGKILL" in failure.message
    (PLANNED.folder / "profile.json").unlink()
    with pytest.raises(ArtifactError):
        workers.do("locate_output", [PLANNED], "x.log")


def test_a_fault_of_the_program_is_a_failure_of_the_case_and_its_frames_are_in_the_log(workers: Workers) -> None:
    with pytest.raises(CaseFailure, match="fly ended with KeyError: 'fly'") as raised:
        workers.do("fly", [PLANNED], "x.log")
    assert raised.value.status is Status.INCOMPLETE
    assert "the log has the whole traceback" in raised.value.advice
    assert "Traceback" in Path("x.log").read_text()


def test_an_error_of_the_system_is_a_failure_of_the_case(workers: Workers) -> None:
    Path("x.log").mkdir()
    with pytest.raises(CaseFailure, match="locate_output of some_golden/case ended with IsADirectoryError") as raised:
        workers.do("locate_output", [PLANNED], "x.log")
    assert raised.value.status is Status.INCOMPLETE


def test_a_worker_that_died_while_it_had_nothing_to_do_fails_no_case(workers: Workers) -> None:
    for _ in range(2):
        with pytest.raises(ArtifactError):
            workers.do("locate_output", [PLANNED], "x.log")
        (worker,) = mine()
        kill(worker)


def test_a_worker_that_dies_before_it_takes_a_step_is_replaced_once(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho start >> starts\n[ $(wc -l < starts) -gt 1 ] && exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(ArtifactError):
        workers.do("locate_output", [PLANNED], "x.log")
    assert Path("starts").read_text().count("start") == 2
    kill(mine()[0])
    python.write_text("#!/bin/sh\nexit 7\n")
    with pytest.raises(CaseFailure, match="the process that did it ended itself with exit code 7"):
        workers.do("locate_output", [PLANNED], "x.log")


def test_a_step_is_done_on_cores_that_do_not_measure_and_the_next_on_all(workers: Workers) -> None:
    everything = sorted(os.sched_getaffinity(0))
    if len(everything) < 2:
        pytest.skip("two cores are needed to be kept on one of them")
    divided = replace(PLANNED, devices=tuple(f"cpu:{core}" for core in everything))
    for planned, wanted in ((divided, everything[-1:]), (PLANNED, everything), (divided, everything[-1:])):
        with ExitStack() as measuring:
            for core in everything[:-1] if planned.devices else ():
                measuring.enter_context(locks.hold(f"cpu:{core}-{core}"))
            with pytest.raises(ArtifactError):
                workers.do("locate_output", [planned], "x.log")
        threads = {thread.id for thread in mine()[0].threads()}
        assert {frozenset(os.sched_getaffinity(thread)) for thread in threads} == {frozenset(wanted)}
        assert sorted(os.sched_getaffinity(0)) == everything


def test_neither_a_step_nor_the_start_of_a_worker_disturbs_a_measurement(workers: Workers) -> None:
    for known in ([], [ANY]):
        with locks.hold("cpu"):
            asked = Asked(workers)
            time.sleep(0.3)
            assert (mine(), asked.is_alive()) == (known, True)
        asked.join(20)
        assert isinstance(asked.raised, ArtifactError)


def test_an_interrupt_ends_the_waiting_for_a_step_and_all_workers(workers: Workers) -> None:
    Asked(workers).join(20)
    (worker,) = mine()
    with locks.hold("cpu"):
        asked = Asked(workers)
        until(lambda: any(file.name == "cpu-gate.lock" for file in files_of(worker)))  # it waits for room
        workers.hang_up()
        asked.join(5)
        assert isinstance(asked.raised, Interrupted)
        worker.wait(5)
    with pytest.raises(Interrupted):
        workers.do("locate_output", [PLANNED], "x.log")
    assert mine() == []


def test_an_interrupt_ends_a_worker_that_has_nothing_to_do(workers: Workers) -> None:
    Asked(workers).join(20)
    (worker,) = mine()
    workers.hang_up()
    worker.wait(5)


@pytest.mark.parametrize("ends", ["at an interrupt", "when it takes too long"])
def test_a_start_that_never_answers_ends_and_keeps_no_lock(
    ends: str, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho start >> starts\nexec sleep 300\n")
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    if ends == "when it takes too long":
        monkeypatch.setattr("scripts.workers.START_TIMEOUT_S", 0.2)
    asked = Asked(workers)
    until(lambda: Path("starts").exists())
    if ends == "at an interrupt":
        workers.hang_up()
    asked.join(5)
    assert isinstance(asked.raised, Interrupted if ends == "at an interrupt" else CaseFailure)
    with locks.hold("cpu"):
        pass


def test_a_signal_to_all_of_a_job_ends_no_step(workers: Workers) -> None:
    with pytest.raises(ArtifactError):
        workers.do("locate_output", [PLANNED], "x.log")
    (worker,) = mine()
    worker.terminate()
    time.sleep(0.2)
    with pytest.raises(ArtifactError):
        workers.do("locate_output", [PLANNED], "x.log")
    assert mine() == [worker]


@pytest.mark.parametrize("does", ["nothing", "what does not end"])
def test_workers_end_with_the_process_that_started_them_whatever_they_do(does: str, tmp_path: Path) -> None:
    code = f"""
import os, threading
from scripts.workers import Workers
from tests.test_workers import PLANNED, Asked, mine, reads, until
workers = Workers(1)
Asked(workers).join()
(worker,) = mine()
if {does!r} != "nothing":
    PLANNED.folder.mkdir(parents=True)
    os.mkfifo(PLANNED.folder / "profile.json")
    keep = os.open(PLANNED.folder / "profile.json", os.O_RDWR)
    Asked(workers)
    until(lambda: reads(worker))
print(worker.pid, flush=True)
os._exit(0)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    until(lambda: not psutil.pid_exists(int(done.stdout)))


def test_a_worker_that_cannot_start_says_where_its_log_is(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "broken")
    monkeypatch.setattr("scripts.warm.launch.ROOT", Path("broken").resolve())
    Path("broken/scripts").mkdir(parents=True)
    Path("broken/scripts/worker.py").write_text("an edit with a mistake in it")
    with pytest.raises(CaseFailure, match="ended itself with exit code 1") as raised:
        workers.do("locate_output", [PLANNED], "x.log")
    assert raised.value.advice == "Its log is .snakemake/goldenprof/workers.log."
    assert "SyntaxError" in Path(".snakemake/goldenprof/workers.log").read_text()


def test_a_step_forgets_an_earlier_failure_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(planned: PlannedCase) -> None:
        assert not failures.path(planned).exists()
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(case_steps.STEPS, "parse_csv", killed)
    failures.write(PLANNED, "parse_csv", CaseFailure(Status.INCOMPLETE, "An earlier failure."), Path("x.log"))
    with pytest.raises(KeyboardInterrupt):
        case_steps.do("parse_csv", [PLANNED], "x.log")
    assert outcomes.read(PLANNED.folder).status == outcomes.NOT_RUN
