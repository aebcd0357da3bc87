"""`goldenprof nightly`: what a scheduler calls; `snakemake nightly`, suspicious cases once more, and an exit code.

A night that was killed leaves Snakemake's lock behind: it is removed here, and the night goes on under its own run id.
Files that it left are whole (scripts/artifacts.py), and what is missing is made.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts import artifacts, history, locks
from scripts.errors import ConfigError
from scripts.night import CURRENT, FOLDER, Outcome, VerdictsRecord
from scripts.plan import RUN_KEY

COULD_NOT_RUN = 1
ATTEMPTS = 3
SNAKEMAKE_LOCKS = Path(".snakemake/locks")
CODES = """exit codes: 0 all ok; 1 the night could not be run; 2 some cases failed; 3 nothing measured;
4 regressions found, whatever else; 5 interrupted: call it again and it goes on"""


def add_parser(subparsers: Any, summary: str) -> None:
    """The options of `goldenprof nightly`."""
    parser = subparsers.add_parser("nightly", help=summary, description=__doc__, epilog=CODES)
    parser.add_argument("-j", "--jobs", default="1", help="jobs at a time (default: %(default)s)")
    parser.add_argument("--once", action="store_true", help="do not measure suspicious cases a second time")
    parser.add_argument("--keep", type=int, metavar="N", help="then remove captures of all but the N latest nights")
    parser.add_argument("--config", nargs="+", default=[], metavar="KEY=VALUE", help="as for snakemake")
    parser.add_argument("snakemake", nargs="*", metavar="-- ARGUMENT", help="further arguments for snakemake")


def main(options: argparse.Namespace) -> int:
    """Run the night; returns the exit code of its outcome."""
    if options.keep is not None and options.keep < 1:
        raise ConfigError(f"--keep {options.keep}: at least the latest night is kept. Give 1 or more.")

    def occupied() -> None:
        raise ConfigError(f"A night is already running in {Path.cwd()}. Wait for it, or end it first.")

    with locks.hold(f"nightly {Path.cwd()}", waiting=occupied):
        _unlock(options.snakemake)
        workflow = _Workflow(options)
        record = _measure_all(workflow)
        if record is None and workflow.stopped:
            print("The night was interrupted before it began.", file=sys.stderr)
            return Outcome.INTERRUPTED.exit_code
        if record is None:
            print("The night could not be run: see above.", file=sys.stderr)
            return COULD_NOT_RUN
        if record.to_measure_again and not options.once and not workflow.stopped:
            config = [item for item in options.config if not item.startswith(f"{RUN_KEY}=")]
            workflow.run("nightly_again", [*config, f"{RUN_KEY}={record.run_id}"])
            record = _record() or record
        if options.keep:
            prune(options.keep)
    print(f"Night {record.run_id}: {record.outcome}.")
    return record.outcome.exit_code


def prune(keep: int) -> list[Path]:
    """Remove the artifacts of all but the `keep` latest nights that are in the history; their numbers stay there.

    The latest are those whose lock files were written last: a run id may be any name.
    """
    locks = [path for path in FOLDER.glob("*/lock.json") if (history.FOLDER / f"{path.parent.name}.parquet").exists()]
    over = sorted(locks, key=lambda path: path.stat().st_mtime)[:-keep]
    parts = [lock.with_name(part) for lock in over for part in ("first", "second")]
    gone = [part for part in parts if part.is_dir()]
    for folder in gone:
        shutil.rmtree(folder)
    return gone


@dataclass
class _Workflow:
    """Runs of Snakemake; a signal that would end this process ends them, and is remembered."""

    options: argparse.Namespace
    stopped: bool = False

    def run(self, target: str, config: Sequence[str]) -> bool:
        """Run up to `target`; True when it ended well."""
        arguments = [f"-j{self.options.jobs}", *self.options.snakemake, *(["--config", *config] if config else [])]
        child = subprocess.Popen([sys.executable, "-m", "snakemake", target, *arguments])

        def stop(*_: object) -> None:
            self.stopped = True
            child.terminate()

        before = signal.signal(signal.SIGTERM, stop)
        try:
            child.wait()
        except KeyboardInterrupt:  # the terminal has sent it to both
            self.stopped = True
            child.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
        return child.returncode == 0


def _measure_all(workflow: _Workflow) -> VerdictsRecord | None:
    """The night's first measurements. Snakemake may end well without what follows a step that it did again."""
    CURRENT.unlink(missing_ok=True)
    for _attempt in range(ATTEMPTS):
        ended_well = workflow.run("nightly", workflow.options.config)
        record = _record()
        if record is None or record.outcome is not Outcome.INTERRUPTED or not ended_well:
            break
    return record


def _record() -> VerdictsRecord | None:
    """What the night that Snakemake has just run came to; None when it did not get that far."""
    path = FOLDER / CURRENT.read_text().strip() / "verdicts.json" if CURRENT.exists() else None
    return artifacts.read(path, VerdictsRecord) if path and path.exists() else None


def _unlock(arguments: Sequence[str]) -> None:
    """Remove the lock of a Snakemake that was killed here; one that lives keeps its own."""
    if not any(SNAKEMAKE_LOCKS.glob("*")) or _snakemake_lives():
        return
    print("Removing the lock of a run that was killed.", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "snakemake", "--unlock", *arguments], capture_output=True)


def _snakemake_lives() -> bool:
    """Whether a Snakemake process works in this folder; without /proc, that is taken for granted."""
    processes = Path("/proc")
    if not (processes / "self/cwd").exists():
        return True
    here = Path.cwd().resolve()
    for process in processes.iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").resolve() == here:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if any(Path(word.decode(errors="replace")).name == "snakemake" for word in words[:3]):
                    return True
        except OSError:
            continue  # ended meanwhile, or another user's
    return False
