"""One holder per device, in all processes of the machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scripts import locks

HOLD = """
import sys, time
from scripts import locks
with locks.hold("npu:0", waiting=lambda: print("waiting", flush=True)):
    print("held", flush=True)
    sys.stdin.readline()
"""

HANG_UP = """
import sys, threading, time
from scripts import locks
from scripts.warm import client

def wait():
    try:
        with locks.hold_one(sys.argv[1:], shared=True, waiting=lambda: print("waiting", flush=True)):
            print("held", flush=True)
    except locks.Interrupted as error:
        print(error, flush=True)

client.hang_up_on_signals()
thread = threading.Thread(target=wait)
thread.start()
try:
    time.sleep(60)
except KeyboardInterrupt:
    thread.join()  # as Snakemake does with its pool's
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GOLDENPROF_LOCK_DIR", str(tmp_path / "locks"))
    return tmp_path / "locks"


def holder() -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )


def test_a_second_process_waits_until_the_first_lets_go() -> None:
    first, second = holder(), None
    try:
        assert first.stdout.readline() == "held\n"
        second = holder()
        assert second.stdout.readline() == "waiting\n"
        first.communicate("\n")
        assert second.stdout.readline() == "held\n"
    finally:
        for process in filter(None, (first, second)):
            process.kill()
            process.communicate()


def test_a_killed_holder_lets_go() -> None:
    first = holder()
    assert first.stdout.readline() == "held\n"
    first.kill()
    first.communicate()
    waited = []
    with locks.hold("npu:0", waiting=lambda: waited.append(1)):
        assert waited == []


def test_a_forked_child_that_outlives_the_holder_does_not_keep_the_device() -> None:
    code = """
import os, time
from scripts import locks
with locks.hold("npu:0"):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    print("forked", flush=True)
    time.sleep(0.2)
os._exit(0)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout.readline() == "forked\n"
        process.wait()
        start = time.monotonic()
        with locks.hold("npu:0"):
            assert time.monotonic() - start < 5
    finally:
        os.killpg(process.pid, 9)


def test_shared_holders_do_not_wait_for_each_other_and_an_exclusive_one_does() -> None:
    waited = []
    with locks.hold("cpu", shared=True):
        with locks.hold("cpu", shared=True, waiting=lambda: waited.append("shared")):
            pass
        code = "from scripts import locks\nwith locks.hold('cpu', waiting=lambda: print('waiting', flush=True)): pass"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "waiting\n"
    process.communicate()
    assert process.returncode == 0
    assert waited == []


def test_who_waits_to_hold_alone_is_not_overtaken_by_ever_new_sharers() -> None:
    over = threading.Event()

    def share(delay_s: float) -> None:
        time.sleep(delay_s)
        while not over.is_set():
            with locks.hold("cpu", shared=True):
                time.sleep(0.05)

    sharers = [threading.Thread(target=share, args=(k * 0.01,), daemon=True) for k in range(8)]
    for sharer in sharers:
        sharer.start()
    time.sleep(0.2)
    alone = subprocess.run(
        [sys.executable, "-c", HOLD.replace("npu:0", "cpu")], input="\n", capture_output=True, text=True, timeout=20
    )
    over.set()
    for sharer in sharers:
        sharer.join()
    assert alone.stdout.endswith("held\n")


def test_different_devices_do_not_wait_for_each_other() -> None:
    with locks.hold("npu:0"), locks.hold("npu:1", waiting=lambda: pytest.fail("waited")):
        pass


def test_every_user_of_the_machine_may_use_the_lock_files(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with locks.hold("npu:0"):
            pass
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert (folder / "npu-0.lock").stat().st_mode & 0o777 == 0o666


def test_a_symlink_in_place_of_a_lock_is_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (folder / "npu-0.lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError), locks.hold("npu:0"):
        pass
    assert not (tmp_path / "target").exists()


def taken(name: str) -> bool:
    """Whether another process cannot have the lock now."""
    code = f"import sys; from scripts import locks\nwith locks.hold({name!r}, waiting=lambda: sys.exit(3)): pass"
    return subprocess.run([sys.executable, "-c", code]).returncode == 3


def test_parts_of_the_cpu_exclude_those_that_they_overlap_and_the_whole() -> None:
    with locks.hold("cpu:2-3"):
        found = {name: taken(name) for name in ("cpu:0-1", "cpu:4-4", "cpu:3-5", "cpu:0-7", "cpu")}
    assert found == {"cpu:0-1": False, "cpu:4-4": False, "cpu:3-5": True, "cpu:0-7": True, "cpu": True}
    with locks.hold("cpu"):
        assert taken("cpu:90-99")


def test_of_several_locks_the_first_free_one_is_held_and_the_others_are_not() -> None:
    with locks.hold("npu:0"), locks.hold_one(["npu:0", "npu:1", "npu:2"]) as name:
        assert name == "npu:1"
        assert {name: taken(name) for name in ("npu:1", "npu:2")} == {"npu:1": True, "npu:2": False}
    assert not taken("npu:1")


def test_who_waits_for_one_of_several_gets_whichever_is_free_first() -> None:
    first, waited = holder(), []
    try:
        assert first.stdout.readline() == "held\n"
        with locks.hold("npu:1"):
            threading.Timer(0.3, lambda: first.stdin.close()).start()
            with locks.hold_one(["npu:1", "npu:0"], waiting=lambda: waited.append(1)) as name:
                assert name == "npu:0"
        assert waited == [1]
    finally:
        first.kill()
        first.wait()


def test_who_waits_for_one_of_several_is_not_overtaken_by_ever_new_sharers() -> None:
    over = threading.Event()

    def share(name: str, delay_s: float) -> None:
        time.sleep(delay_s)
        while not over.is_set():
            with locks.hold(name, shared=True):
                time.sleep(0.05)

    sharers = [threading.Thread(target=share, args=(f"cpu:{k % 2}-{k % 2}", k * 0.01), daemon=True) for k in range(8)]
    for sharer in sharers:
        sharer.start()
    time.sleep(0.2)
    code = "from scripts import locks\nwith locks.hold_one(['cpu:0-0', 'cpu:1-1']) as name: print(name)"
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    over.set()
    for sharer in sharers:
        sharer.join()
    assert alone.stdout.startswith("cpu:")


@pytest.mark.parametrize("names", [("npu:0",), ("npu:0", "npu:1")])
def test_a_thread_that_waits_does_not_keep_an_interrupted_process(names: tuple[str, ...]) -> None:
    with locks.hold("npu:0"), locks.hold("npu:1"):
        command = [sys.executable, "-c", HANG_UP, *names]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout.readline() == "waiting\n"
            time.sleep(0.3)  # until the kernel waits
            process.send_signal(signal.SIGINT)
            told, _ = process.communicate(timeout=2)
        finally:
            process.kill()
            process.wait()
    assert told == "The run was interrupted.\n"


def test_a_thread_that_waits_gets_the_lock_and_alone() -> None:
    first, second = holder(), None
    held = threading.Event()

    def wait() -> None:
        with locks.hold("npu:0"):
            held.set()
            over.wait(20)

    over = threading.Event()
    thread = threading.Thread(target=wait)
    try:
        assert first.stdout.readline() == "held\n"
        thread.start()
        assert not held.wait(0.3)
        first.communicate("\n")
        assert held.wait(5)
        second = holder()
        assert second.stdout.readline() == "waiting\n"
        over.set()
        assert second.stdout.readline() == "held\n"
    finally:
        over.set()
        thread.join()
        for process in filter(None, (first, second)):
            process.kill()
            process.communicate()


def test_the_lock_file_of_another_user_is_opened_where_the_kernel_protects_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fs.protected_regular, O_CREAT on another user's file in a sticky folder that all can write is refused."""
    real, raced = os.open, []

    def protected(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT and not flags & os.O_EXCL and Path(path).exists():
            raise PermissionError(13, "Permission denied", str(path))
        if not flags & os.O_CREAT and not Path(path).exists():
            Path(path).touch()  # the other user is faster, between two looks
            raced.append(path)
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", protected)
    for _ in range(2):
        with locks.hold("npu:0"):
            assert taken("npu:0")
    assert len(raced) == 2  # the lock and its gate
