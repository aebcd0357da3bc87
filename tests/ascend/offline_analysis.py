"""Analyse captures offline, two at a time, each in a process of its own.

python offline_analysis.py JSON    where JSON is a list of [capture folder, {environment variable: value}]
"""

import json
import os
import sys

from torch_npu.profiler.profiler import analyse

AT_A_TIME = 2


def start(folder: str, variables: dict[str, str]) -> None:
    if os.fork() == 0:
        os.environ.update(variables)
        analyse(folder, max_process_number=1)
        sys.stdout.flush()
        os._exit(0)


def main(jobs: list[tuple[str, dict[str, str]]]) -> None:
    for number, job in enumerate(jobs):
        if number >= AT_A_TIME:
            os.wait()
        start(*job)
    for _ in jobs[-AT_A_TIME:]:
        os.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
