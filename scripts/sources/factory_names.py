"""The names of the cases that golden files' factories make: each file in a process of its own, on the meta device.

    python -m scripts.sources.factory_names FILE …

prints one JSON object a line: {"file": …, "cases": […]} or {"file": …, "problem": "a sentence"}.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from scripts import golden_file
from scripts.errors import CaseFailure
from scripts.plan import ROOT
from scripts.sources import absent_npu
from scripts.status import Status

ONE_CASE = "default"  # what the case of a factory that makes one is called
TIMEOUT_S = 60
MOST_MESSAGE = 200  # characters of an exception's first line


def main(files: list[str]) -> int:
    """Ask every file in turn; one that crashes or hangs says so and stops no other."""
    for file in files:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _answer(file, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(pid, 0)
        print(told.decode() or json.dumps({"file": file, "problem": _ended(status)}), flush=True)
    return 0


def _answer(file: str, writer: int) -> None:
    """In the child: write the answer and end, whatever the file does."""
    signal.alarm(TIMEOUT_S)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        found: dict[str, Any] = {"file": file, "cases": cases(Path(file))}
    except CaseFailure as failure:
        found = {"file": file, "problem": failure.message}
    except BaseException as error:
        first = (str(error).splitlines() or [""])[0][:MOST_MESSAGE]
        found = {"file": file, "problem": f"its factory raised {type(error).__name__}: {first}"}
    os.write(writer, json.dumps(found).encode())
    os._exit(0)


def cases(file: Path) -> list[str]:
    """The case names of one golden file's `_make_inputs`."""
    golden = golden_file.load(file, None, (ROOT,))
    factory = golden.factory
    if "case" in inspect.signature(factory).parameters:
        raise CaseFailure(Status.SKIPPED, "its factory takes a case's name: write the names of its cases by hand")
    try:
        absent_npu.rebind(golden.module, torch.device("meta"))
        made = factory("meta")
    except Exception:  # a factory that reads its values needs real ones
        absent_npu.rebind(golden.module, torch.device("cpu"))
        made = factory("cpu")
    if isinstance(made, list) and made and all(isinstance(item, list | tuple) and len(item) == 3 for item in made):
        return [str(item[0]) for item in made]
    if isinstance(made, list | tuple) and len(made) == 2 and isinstance(made[1], dict):
        return [ONE_CASE]
    raise CaseFailure(Status.GOLDEN_FAILED, f"its factory returned another form: {type(made).__name__}")


def _ended(status: int) -> str:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
        return f"its factory did not end within {TIMEOUT_S} s"
    return f"its factory ended the process with code {os.waitstatus_to_exitcode(status)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
