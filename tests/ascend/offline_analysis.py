"""Analyse captures offline, one after another, each in a process of its own.

python offline_analysis.py JSON    where JSON is a list of [capture folder, {environment variable: value}]
"""

import json
import os
import sys

from torch_npu.profiler.profiler import analyse


def main(jobs: list[tuple[str, dict[str, str]]]) -> None:
    for folder, variables in jobs:
        pid = os.fork()
        if pid == 0:
            os.environ.update(variables)
            analyse(folder, max_process_number=1)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
