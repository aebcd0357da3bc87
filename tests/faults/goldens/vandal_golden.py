"""Goldens that do to their process what a program may do to its process."""

import atexit
import ctypes
import os
import random
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import torch


def abort_golden(x):
    ctypes.CDLL(None).abort()


def hang_in_c_golden(x):
    ctypes.PyDLL(None).sleep(1000)  # PyDLL keeps the interpreter's lock: no Python runs meanwhile


def stop_golden(x):
    os.kill(os.getpid(), signal.SIGSTOP)
    return x + 1


def deaf_hang_golden(x):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(1000)


def handler_golden(x):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    return x + 1


def kill_group_golden(x):
    os.killpg(0, signal.SIGKILL)


def daemon_golden(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    return x + 1


def fork_golden(x):
    os.fork()  # and both come back
    return x + 1


def thread_golden(x):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    atexit.register(time.sleep, 1000)
    return x + 1


def talkative_golden(x):
    if not hasattr(talkative_golden, "said"):
        talkative_golden.said = True
        for _ in range(40):
            print("x" * 2**20)
    return x + 1


def binary_talk_golden(x):
    os.write(1, bytes(range(256)))
    print("\x1b[2J\x1b]0;title\x07\udc80")
    return x + 1


def memory_golden(x):
    return x + torch.ones(2**45)


def limited_memory_golden(x):
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**20, size + 2**20))
    return x + torch.ones(2**28)[: x.shape[-1]]


def no_files_golden(x):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return x + 1


def chdir_golden(x):
    os.chdir("/")
    return x + 1


def removed_folder_golden(x):
    if not hasattr(removed_folder_golden, "done"):
        removed_folder_golden.done = True
        os.mkdir("removed")
        os.chdir("removed")
        os.rmdir("../removed")
    return x + 1


def moody_golden(x):
    os.environ.clear()
    os.environ.update({"OMP_NUM_THREADS": "64", "TZ": "Asia/Tokyo", "GOLDENPROF_SESSION": "nonsense"})
    time.tzset()
    torch.manual_seed(7)
    random.seed(7)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    os.umask(0)
    sys.path.clear()
    return x + 1


def deleting_golden(x):
    shutil.rmtree("prof/deleting_golden", ignore_errors=True)
    return x + 1


def scribbling_golden(x):
    for folder in Path("prof/scribbling_golden/case").glob("*-cpu-*"):
        stranger = folder / "stranger_1_1_ascend_pt/ASCEND_PROFILER_OUTPUT"
        stranger.mkdir(parents=True, exist_ok=True)
        (stranger / "kernel_details.csv").write_text("Name,Start Time(us),Duration(us)\nfalse,1,1\n")
    return x + 1


def closing_golden(x):
    os.closerange(3, 256)
    return x + 1


def lock_closing_golden(x):
    for name in os.listdir("/proc/self/fd"):
        link = f"/proc/self/fd/{name}"
        if os.path.lexists(link) and os.readlink(link).endswith(".lock"):
            os.close(int(name))
    return x + 1


def silent_golden(x):
    sys.stdout.close()
    sys.stderr = None
    os.closerange(0, 3)
    return x + 1


def exception_golden(x):
    raise BaseException("neither Exception nor exit")


def interrupt_golden(x):
    raise KeyboardInterrupt("nobody pressed Ctrl-C")


def deep_golden(x):
    return deep_golden(x)


def rude_message_golden(x):
    raise ValueError("<script>alert(1)</script> | a\x1b[31m`b` \udc80 \u202e" + "long " * 100_000)


def profiling_golden(x):
    with torch.profiler.profile():
        return x + 1


def score_golden(x):
    print("score:", Path("/proc/self/oom_score_adj").read_text())
    return x + 1
