"""The warm parent: one child a case, and nothing left behind whoever dies."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from scripts import artifacts
from scripts.artifacts import FailureRecord
from scripts.cases import Argument, Case, Settings, TensorSpec
from scripts.plan import Plan
from scripts.status import Status
from scripts.warm import child, client, protocol
from scripts.warm.protocol import Request, Unreachable

ROOT = Path(__file__).resolve().parents[1]
ASK = """
import sys
from pathlib import Path
from scripts import failures
from scripts.locks import Interrupted
from scripts.plan import read_saved
from scripts.warm import client
from scripts.warm.protocol import Answer, Request, Unreachable

client.hang_up_on_signals()
try:
    step, plan, case, log = sys.argv[1:]
    answer = client.ask(Request(step, plan, case, log))
    if answer is None:
        failure = failures.of_lost_parent(step, case)
        text = failures.write(read_saved(Path(plan))[case], step, failure, Path(log))
        answer = Answer(failure.status.exit_code, text)
except (Unreachable, Interrupted, KeyboardInterrupt) as error:
    sys.exit(str(error))
print(answer.text, file=sys.stderr)
sys.exit(answer.exit_code)
"""
GOLDEN = """
import os, subprocess, time
import torch

def quick_golden(x):
    print("quick was here")
    return x + 1

def slow_golden(x):
    time.sleep(60)
    return x

def breeding_golden(x):
    subprocess.Popen(["sleep", "300"], start_new_session=True)
    subprocess.Popen(["sleep", "300"])
    return x + 1

def detach():
    subprocess.run(["setsid", "sh", "-c", "sleep 300 & echo $! >daemon"], check=True)

def helped_golden(x):
    if not os.path.exists("daemon"):
        detach()
    while not os.path.exists("go on"):
        time.sleep(0.05)
    os.kill(int(open("daemon").read()), 0)
    print("the helper lives")
    return x + 1

def vandal_golden(x):
    os.environ.clear()
    os.chdir("/")
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(7)
    os.closerange(3, 64)
    return x + 1
"""


class Session:
    """A process that the warm parent works for, and the clients that ask it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.owner = subprocess.Popen(["sleep", "600"])
        self.environment = {
            **os.environ,
            "GOLDENPROF_SESSION": f"{os.uname().nodename}:{self.owner.pid}",
            "GOLDENPROF_LOCK_DIR": str(folder / "locks"),
        }

    def client(self, function: str, step: str = "make_inputs", timeout_s: float = 60) -> subprocess.Popen:
        arguments = (Argument("x", (TensorSpec((4, 4), "float32", "randn"),)),)
        settings = Settings(device="cpu", warmup=1, iterations=2, noise_mib=1, timeout_s=timeout_s)
        case = Case(function, "case", "some_golden.py", function, "A", arguments, settings)
        plan = Plan([case])
        self.planned = plan.by_id[case.id]
        command = [sys.executable, "-c", ASK, step, str(plan.save()), case.id, f"{function}.{step}.log"]
        environment = {**self.environment, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)

    def run(self, function: str, **options: float) -> int:
        """Both steps of a case; the exit code of the last one that ran."""
        return self.client(function).wait(60) or self.client(function, "profile", **options).wait(60)

    @property
    def failure(self) -> FailureRecord:
        return artifacts.read(self.planned.folder / "failure.json", FailureRecord)

    def server(self) -> psutil.Process:
        found = self.servers()
        assert found, "the warm parent does not live"
        return found[0]

    def servers(self) -> list[psutil.Process]:
        """The warm parent of this session, without the children that share its command line; [] when it has ended."""
        name = self.environment["GOLDENPROF_SESSION"]
        alike = [p for p in psutil.process_iter(["cmdline", "ppid"]) if (p.info["cmdline"] or [""])[-1] == name]
        pids = {process.pid for process in alike}
        return [process for process in alike if process.info["ppid"] not in pids]

    def wait_for_child(self) -> psutil.Process:
        return until(lambda: next((child for server in self.servers() for child in server.children()), None))


def until(condition: Callable, seconds: float = 90):
    """The first true value of `condition` within `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warm")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    before = Path.cwd()
    os.chdir(folder)
    (folder / "some_golden.py").write_text(GOLDEN)
    session = Session(folder)
    yield session
    session.owner.kill()
    session.owner.wait()
    os.chdir(before)


def test_a_case_is_done_and_what_it_prints_is_in_its_log(session: Session) -> None:
    assert session.run("quick_golden") == 0
    assert (session.planned.folder / "profile.json").exists()
    assert "quick was here" in Path("quick_golden.profile.log").read_text()


def test_one_parent_serves_a_session(session: Session) -> None:
    first = session.server().pid
    assert session.run("quick_golden") == 0
    assert session.server().pid == first


def test_a_client_that_is_killed_takes_its_case_with_it(session: Session) -> None:
    assert session.client("slow_golden").wait(60) == 0
    client = session.client("slow_golden", "profile")
    child = session.wait_for_child()
    client.kill()
    client.wait()
    until(lambda: not child.is_running())
    assert session.run("quick_golden") == 0


def test_an_interrupt_ends_the_case_at_once(session: Session) -> None:
    assert session.client("slow_golden").wait(60) == 0
    client = session.client("slow_golden", "profile")
    child = session.wait_for_child()
    client.send_signal(signal.SIGINT)
    assert client.wait(5) == 1
    until(lambda: not child.is_running(), 5)
    assert "interrupted" in client.stderr.read().decode()
    assert not (session.planned.folder / "failure.json").exists()


def test_a_case_that_takes_too_long_is_stopped(session: Session) -> None:
    start = time.monotonic()
    assert session.run("slow_golden", timeout_s=1) == 3
    assert time.monotonic() - start < 20
    assert session.failure.status is Status.TIMEOUT
    assert re.search(r'File ".*some_golden.py", line \d+ in slow_golden', Path(session.failure.log).read_text())
    assert session.server().children() == []


def test_what_a_golden_starts_ends_with_it(session: Session) -> None:
    assert session.run("breeding_golden") == 0
    until(lambda: not session.server().children(recursive=True), 5)


def test_what_a_golden_detached_ends_with_it_and_no_sooner_whatever_other_cases_do(session: Session) -> None:
    for golden in ("slow_golden", "quick_golden", "helped_golden"):
        assert session.client(golden).wait(60) == 0
    helped = session.client("helped_golden", "profile")
    daemon = int(until(lambda: Path("daemon").exists() and Path("daemon").read_text()))
    others = []
    for count in (2, 3):  # they wait for the device; no two for the same case
        others.append(session.client(("slow_golden", "quick_golden")[count - 2], "profile"))
        until(lambda count=count: len(session.server().children()) == count)
    others[1].kill()
    others[1].wait()
    until(lambda: len(session.server().children()) == 2)
    Path("go on").touch()
    assert helped.wait(60) == 0
    assert "the helper lives" in Path("helped_golden.profile.log").read_text()
    until(lambda: not psutil.pid_exists(daemon), 5)
    assert others[0].poll() is None
    others[0].kill()
    others[0].wait()


def test_events_of_an_ended_job_that_came_at_once_do_not_end_the_parent(session: Session) -> None:
    assert session.client("slow_golden").wait(60) == 0
    client = session.client("slow_golden", "profile")
    child, server = session.wait_for_child(), session.server()
    server.suspend()
    child.kill()
    until(lambda: child.status() == psutil.STATUS_ZOMBIE)
    client.kill()
    client.wait()
    server.resume()
    assert session.run("quick_golden") == 0
    assert session.server().pid == server.pid


def test_a_golden_that_changes_its_process_touches_no_other_case(session: Session) -> None:
    session.run("vandal_golden")
    assert session.run("quick_golden") == 0


def test_a_child_killed_by_the_kernel_is_diagnosed(session: Session) -> None:
    assert session.client("slow_golden").wait(60) == 0
    client = session.client("slow_golden", "profile")
    session.wait_for_child().send_signal(signal.SIGKILL)
    assert client.wait(30) == 2
    assert "SIGKILL" in session.failure.message
    assert "memory" in session.failure.advice


def test_when_the_parent_is_killed_its_child_ends_and_the_case_is_tried_again(session: Session) -> None:
    assert session.client("slow_golden").wait(60) == 0
    client = session.client("slow_golden", "profile")
    child, server = session.wait_for_child(), session.server()
    server.kill()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    until(lambda: any(other.pid != server.pid for other in session.servers()))
    session.wait_for_child()
    session.server().kill()
    assert client.wait(120) == 3
    assert "warm parent process died twice" in session.failure.message
    assert session.run("quick_golden") == 0


def test_a_job_that_cannot_be_started_is_a_failure_of_its_case(folder: Path, session: Session) -> None:
    (folder / "never_golden.make_inputs.log").mkdir()
    assert session.client("never_golden").wait(60) == Status.PROFILER_FAILED.exit_code
    assert "could not be started" in session.failure.message
    assert session.failure.step == "make_inputs"


def test_a_step_that_does_not_exist_is_no_analysis(session: Session) -> None:
    assert session.client("quick_golden").wait(60) == 0
    answer = child._result("fly", session.planned, lambda phase: None)
    assert "there is no step 'fly'" in answer.text


def test_when_the_session_ends_everything_ends(folder: Path, session: Session) -> None:
    other = Session(folder)
    assert other.client("slow_golden").wait(60) == 0
    client = other.client("slow_golden", "profile")
    child, server = other.wait_for_child(), other.server()
    other.owner.kill()
    other.owner.wait()
    until(lambda: not server.is_running() and not child.is_running())
    assert client.wait(30) != 0


@pytest.fixture
def idle_parent(folder: Path, session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Callable]]:
    """The socket of a warm parent that ends after a moment without work, and what waits for its end."""
    owner = subprocess.Popen(["sleep", "600"])
    name = f"{os.uname().nodename}:{owner.pid}"
    monkeypatch.setenv("GOLDENPROF_IDLE_S", "1")
    monkeypatch.setenv("GOLDENPROF_SESSION", name)
    path = protocol.socket_path(name)
    with protocol.alone_at(path):
        client._wait_for(path, client._start(name)).close()
    parent = next(p for p in psutil.process_iter(["cmdline"]) if (p.info["cmdline"] or [""])[-1] == name)
    yield path, lambda: until(lambda: not parent.is_running() or parent.status() == psutil.STATUS_ZOMBIE, 20)
    owner.kill()
    owner.wait()
    path.unlink(missing_ok=True)


def test_an_idle_parent_removes_its_socket_and_leaves_the_lock_to_who_waits_for_it(
    idle_parent: tuple[Path, Callable],
) -> None:
    path, wait_for_end = idle_parent
    with protocol.alone_at(path):
        lock = path.with_name("start.lock").stat()
        time.sleep(2)
        assert path.exists()  # a client is at it
    wait_for_end()
    assert not path.exists()
    assert os.path.samestat(lock, path.with_name("start.lock").stat())


def test_an_idle_parent_leaves_the_socket_of_another(idle_parent: tuple[Path, Callable]) -> None:
    path, wait_for_end = idle_parent
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        wait_for_end()
        assert path.exists()


def test_a_request_that_nobody_reads_is_no_death_over_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.close()
        return ours

    monkeypatch.setattr(client, "_connect", gone)
    monkeypatch.setattr(client, "MOST_MISSED", 3)
    with pytest.raises(Unreachable, match=r"^3 warm parents ended before they had read a request; their log is"):
        client.ask(Request("profile", "plan.json", "op/case", "log"))


def test_modules_of_the_users_folder_are_not_taken_for_ours(
    tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/__init__.py", "statistics.py"):
        (tmp_path / name).write_text("raise SystemExit('not ours')")
    (tmp_path / "some_golden.py").write_text(GOLDEN)
    monkeypatch.chdir(tmp_path)
    other = Session(tmp_path)
    try:
        code = f"import sys; sys.path[0] = {str(ROOT)!r}\n{ASK}"
        monkeypatch.setitem(globals(), "ASK", code)
        assert other.client("quick_golden").wait(60) == 0
    finally:
        other.owner.kill()
        other.owner.wait()


def test_a_warm_parent_that_cannot_start_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDENPROF_SESSION", f"{os.getpid()}-cannot-start")
    monkeypatch.setattr(client.launch, "command", lambda *words: ["sh", "-c", "exit 7"])
    start = time.monotonic()
    with pytest.raises(Unreachable, match=r"ended before it listened \(exit code 7\); its log is"):
        client.ask(Request("profile", "plan.json", "op/case", "log"))
    assert time.monotonic() - start < client.START_TIMEOUT_S / 2
