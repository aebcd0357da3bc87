"""Long tests of what a sweep survives; prints the table of docs/reliability.md.

    make soak                                    50 kills, 1000 cases, a disk that is full at every size
    python benchmarks/soak.py kills --count 10   one of them, smaller

kills    a sweep is killed at random moments by SIGKILL, SIGTERM or SIGINT; then one run finishes it, and what lies in
         prof/ and reports/ must be what a run that was never killed makes: the same files, inputs and kernels
cases    many cases through one warm parent: its memory and descriptors must not grow
full     a sweep on a file system with less and less room: nothing wrong may be believed, the next run must finish
memory   a golden that eats memory in a control group of its own (version 1, needs root): it alone is killed
output   a golden that prints a gigabyte: it is measured, and its log stays small
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import artifacts  # noqa: E402
from scripts.artifacts import FailureRecord, PerfRecord  # noqa: E402

CASES_OF_A_SWEEP = 6
GOLDEN = '''
    """Goldens of the soak."""
    import torch


    def plain_golden(x):
        return x * 2 + 1


    def hungry_golden(x):
        kept = []
        while True:
            kept.append(torch.ones(2**24))


    def talkative_golden(x, said=[]):
        for _ in range(0 if said else MIB):
            print("x" * (2**20 - 1))
        said.append(True)
        return x + 1
'''
SNAKEMAKE = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--workflow-profile",
             str(ROOT / "profiles/default")]  # fmt: skip


class Checkout:
    """A folder with `count` cases of one golden."""

    def __init__(self, path: Path, count: int, golden: str = "plain_golden") -> None:
        self.path = path
        (path / "config").mkdir(parents=True)
        (path / "golden").mkdir()
        (path / "golden/soak_golden.py").write_text(textwrap.dedent(GOLDEN))
        inputs = "inputs: {x: {shape: [8, 16], dtype: float32}}"
        cases = "\n".join(f"      c{k:04d}: {{seed: {k}, {inputs}}}" for k in range(count))
        (path / "config/cases.yaml").write_text(
            "defaults: {warmup: 1, iterations: 2, noise_mib: 1, device: cpu}\n"
            f"operators:\n  {golden}:\n    golden: golden/soak_golden.py\n    function: {golden}\n    mode: A\n"
            f"    cases:\n{cases}\n"
        )
        self.reports = [f"reports/{golden}/c{k:04d}.md" for k in range(count)]

    def start(self, log: str = "run.log") -> subprocess.Popen[bytes]:
        with (self.path / log).open("wb") as file:
            return subprocess.Popen(
                [*SNAKEMAKE, "--directory", str(self.path), "-j1", *self.reports],
                cwd=self.path, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip

    def finish(self) -> None:
        """One run to its end, which must be a good one."""
        if self.start().wait() != 0:
            raise SystemExit((self.path / "run.log").read_text())

    def left(self, seconds: float = 30) -> list[str]:
        """What still works in this folder some seconds later."""
        deadline = time.monotonic() + seconds
        while (found := [p for p in psutil.process_iter() if _works_in(p, self.path)]) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [" ".join(process.cmdline()) for process in found if process.is_running()]

    def contents(self) -> dict[str, object]:
        """Every file by its name without what differs from run to run, and what was measured in every case."""
        names = {
            re.sub(r"[^/]+_ascend_pt", "*_ascend_pt", path.relative_to(self.path).as_posix())
            for folder in ("prof", "reports")
            for path in (self.path / folder).rglob("*")
            if path.is_file() and path.suffix != ".log" and ".damaged" not in path.name
        }
        measured = {}
        for path in sorted((self.path / "prof").glob("*/*/*-cpu-*/perf.json")):
            perf = artifacts.read(path, PerfRecord)
            ops = sorted((op.op, op.count) for op in perf.ops)
            measured[path.parts[-3]] = (perf.profile.inputs, perf.profile.outputs, ops, perf.cross_check.agrees)
        return {"names": names, "measured": measured}


def kills(count: int) -> str:
    """`count` random kills over one sweep after the other."""
    choice = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        calm = Checkout(Path(folder, "calm"), CASES_OF_A_SWEEP)
        started = time.monotonic()
        calm.finish()
        length = time.monotonic() - started
        wanted, sweeps, killed = calm.contents(), 0, 0
        while killed < count:
            checkout = Checkout(Path(folder, f"sweep{sweeps}"), CASES_OF_A_SWEEP)
            for _ in range(min(5, count - killed)):
                run = checkout.start()
                number = choice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
                time.sleep(choice.uniform(0, length))
                run.send_signal(number)
                run.wait()
                killed += 1
                _expect(checkout.left() == [], f"after {number.name} processes are left: {checkout.left(0)}")
            checkout.finish()
            found = checkout.contents()
            for part in wanted:
                _expect(
                    found[part] == wanted[part], f"after kills, {part} differ: {_difference(wanted[part], found[part])}"
                )
            _expect(checkout.left() == [], "processes are left")
            sweeps += 1
    return f"{killed} kills in {sweeps} sweeps of {CASES_OF_A_SWEEP} cases: every sweep ends as the one never killed"


def cases(count: int) -> str:
    """`count` cases through one warm parent; what it holds after a tenth of them and at the end."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        checkout = Checkout(Path(folder, "many"), count)
        run, seen = checkout.start(), []
        while run.poll() is None:
            done = len(list((checkout.path / "prof/plain_golden").glob("*/*-cpu-*/profile.json")))
            for process in psutil.process_iter():
                try:
                    if _works_in(process, checkout.path) and _is_warm_parent(process):
                        seen.append((done, process.memory_info().rss / 2**20, process.num_fds()))
                except psutil.Error:
                    continue
            time.sleep(0.5)
        _expect(run.returncode == 0, (checkout.path / "run.log").read_text()[-3000:])
        early = [row for row in seen if count / 10 <= row[0] <= count / 5]
        late = [row for row in seen if row[0] >= count * 0.9]
        memory = [sorted(row[1] for row in part)[len(part) // 2] for part in (early, late)]
        descriptors = [min(row[2] for row in part) for part in (early, late)]
        _expect(memory[1] < memory[0] + 20, f"the warm parent grew from {memory[0]:.0f} to {memory[1]:.0f} MiB")
        _expect(descriptors[1] <= descriptors[0], f"descriptors grew from {descriptors[0]} to {descriptors[1]}")
        _expect(checkout.left() == [], "processes are left")
    return (
        f"{count} cases: after a tenth of them the warm parent holds {memory[0]:.0f} MiB and {descriptors[0]} "
        f"descriptors, at the end {memory[1]:.0f} MiB and {descriptors[1]}"
    )


def full(count: int) -> str:
    """Sweeps on a small file system with room for ever more of it, `count` sizes up to what is enough."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        calm = Checkout(Path(folder, "calm"), CASES_OF_A_SWEEP)
        calm.finish()
        wanted = calm.contents()
        need = int(subprocess.check_output(["du", "-sk", str(calm.path)]).split()[0])
        failed = 0
        for k in range(count):
            disk = Path(folder, "disk")
            disk.mkdir(exist_ok=True)
            size = 24 + need * k // count
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", str(disk)], check=True)
            try:
                checkout = Checkout(disk / "work", CASES_OF_A_SWEEP)
                failed += checkout.start("/dev/null").wait() != 0
                _expect(checkout.left() == [], "processes are left")
                measured, right = checkout.contents()["measured"], wanted["measured"]
                _expect(
                    all(right[case] == measured[case] for case in measured),
                    f"with {size} KiB a wrong number is believed",
                )
                subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)
                checkout.finish()
                if (checkout.contents()["names"], checkout.contents()["measured"]) != (wanted["names"], right):
                    _expect(False, f"after {size} KiB: {_difference(wanted['names'], checkout.contents()['names'])}")
            finally:
                _expect(checkout.left() == [], "processes are left")
                subprocess.run(["umount", str(disk)], check=True)
    largest = 24 + need * (count - 1) // count
    return f"{count} sizes of disk from 24 to {largest} KiB: {failed} sweeps failed, every next run finished"


def memory(count: int) -> str:
    """`count` MiB for a whole run in a control group: the golden alone is killed."""
    group = Path("/sys/fs/cgroup/memory/goldenprof-soak")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        checkout = Checkout(Path(folder, "hungry"), 1, "hungry_golden")
        group.mkdir()
        try:
            (group / "memory.limit_in_bytes").write_text(str(count << 20))
            run = subprocess.run(
                ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *SNAKEMAKE, "--directory",
                 str(checkout.path), "-j1", *checkout.reports],
                cwd=checkout.path, capture_output=True, text=True,
            )  # fmt: skip
            _expect(checkout.left() == [], "processes are left")
        finally:
            group.rmdir()
        failure = artifacts.read(next(checkout.path.glob("prof/*/*/*-cpu-*/failure.json")), FailureRecord)
        _expect(run.returncode == 1 and "SIGKILL" in failure.message, failure.message)
    return f"{count} MiB for the whole run: {failure.status}, “{failure.message}”"


def output(count: int) -> str:
    """A golden that prints `count` MiB in its first call."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        checkout = Checkout(Path(folder, "talkative"), 1, "talkative_golden")
        golden = checkout.path / "golden/soak_golden.py"
        golden.write_text(golden.read_text().replace("MIB", str(count)))
        checkout.finish()
        size = next(checkout.path.glob("prof/*/*/*-cpu-*/profile.log")).stat().st_size
        _expect(size < 17 << 20, f"the log has {size} bytes")
        _expect(checkout.left() == [], "processes are left")
    return f"a golden printed {count} MiB and was measured; its log has {size >> 20} MiB"


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.pid != os.getpid() and Path(process.cwd()) == folder.resolve() and process.status() != "zombie"
    except psutil.Error:
        return False


def _is_warm_parent(process: psutil.Process) -> bool:
    """Its children have its command line too."""
    return "scripts.warm.server" in process.cmdline() and "scripts.warm.server" not in process.parent().cmdline()


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise SystemExit(f"FAILED: {otherwise}")


def _difference(wanted: object, found: object) -> str:
    if isinstance(wanted, set) and isinstance(found, set):
        return f"missing {sorted(wanted - found)[:5]}, more {sorted(found - wanted)[:5]}"
    return f"{wanted!r}\n{found!r}"


SOAKS: dict[str, tuple[Callable[[int], str], int]] = {
    "kills": (kills, 50),
    "cases": (cases, 1000),
    "full": (full, 40),
    "memory": (memory, 2500),
    "output": (output, 1024),
}


def main() -> None:
    """Run the soaks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="soak", help=", ".join(SOAKS))
    parser.add_argument("--count", type=int, help="how many kills, cases, sizes, or MiB")
    options = parser.parse_args()
    if unknown := set(options.names) - set(SOAKS):
        parser.error(f"there is no soak {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="soak-locks-") as locks:
        os.environ["GOLDENPROF_LOCK_DIR"] = locks
        for name in options.names or SOAKS:
            work, usual = SOAKS[name]
            started = time.monotonic()
            print(f"{name}: {work(options.count or usual)} ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
