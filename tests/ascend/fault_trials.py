"""Do something on a device that goes wrong, once per trial, each in a forked process; print how each one ended.

python fault_trials.py JSON    where JSON maps a trial's name to [{environment variable: value}, Python code]

One line a trial: its name, then "ok", the exception's type and first line, or "signal" and its number.
"""

import json
import os
import sys

import torch


def attempt(code: str) -> str:
    try:
        exec(code, {"torch": torch})
    except Exception as error:
        return f"{type(error).__name__} {str(error).splitlines()[0]}"
    return "ok"


def main(trials: dict[str, tuple[dict[str, str], str]]) -> None:
    for name, (variables, code) in trials.items():
        pid = os.fork()
        if pid == 0:
            os.environ.update(variables)
            print(f"{name}: {attempt(code)}", flush=True)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            print(f"{name}: signal {os.WTERMSIG(status)}", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
