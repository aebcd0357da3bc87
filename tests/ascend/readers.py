"""Ascend's own reader of profiler folders, msprof-analyze, in an environment of its own.

It exits with 0 whatever happens, so what counts is what it found.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from .build import cache_folder

VERSION = "26.2.0"
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


class ReaderUnavailable(Exception):
    """msprof-analyze cannot be installed here; the message says why."""


@dataclass(frozen=True)
class Findings:
    """What the advisor found: problems by category as its rows, and the table of the overall summary in ms."""

    problems: dict[str, dict[str, object]]
    summary_ms: dict[str, float]


@dataclass(frozen=True)
class MsprofAnalyze:
    """An installed msprof-analyze."""

    program: Path

    def run(self, folder: Path, *arguments: str | Path) -> str:
        """Run in `folder`; what it printed, or AssertionError with that when it failed."""
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(self.program), *map(str, arguments)]
        done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def advise(self, capture: Path, folder: Path) -> Findings:
        """The advisor's findings on the computation of one `*_ascend_pt` folder; `folder` is where it may write."""
        options = ("-d", capture, "-o", folder / "advice", "--force", "-l", "en", "--agent")
        printed = self.run(folder, "advisor", "computation", *options)
        answer = json.loads(printed[printed.index("{") :])
        assert answer["status"] == "success", printed
        problems = answer["message"]["problems"]
        rows = [dict(zip(problems["headers"], row, strict=True)) for row in problems["data"]]
        summary = answer["message"]["Overall Summary"]["data"]
        return Findings({row["category"]: row for row in rows}, {name.strip(): float(ms) for name, ms, _ in summary})

    def compare_kernels(self, capture: Path, baseline: Path, folder: Path) -> list[list[str]]:
        """The rows of the kernel comparison of two `*_ascend_pt` folders, two header rows first."""
        options = ("-d", capture, "-bp", baseline, "-o", folder / "comparison", "--force", "--enable_kernel_compare")
        printed = self.run(folder, "compare", *options)
        written = list((folder / "comparison").glob("*.xlsx"))
        assert len(written) == 1, printed
        return sheet_rows(written[0])


def sheet_rows(workbook: Path) -> list[list[str]]:
    """The cells of a workbook's first sheet as text."""
    with zipfile.ZipFile(workbook) as archive:
        texts = ElementTree.fromstring(archive.read("xl/sharedStrings.xml"))
        sheet = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    shared = ["".join(part.text or "" for part in item.iter(f"{SHEET}t")) for item in texts]

    def text(cell: ElementTree.Element) -> str:
        value = cell.findtext(f"{SHEET}v") or ""
        return shared[int(value)] if cell.get("t") == "s" else value

    return [[text(cell) for cell in row] for row in sheet.iter(f"{SHEET}row")]


def install() -> MsprofAnalyze:
    """Install msprof-analyze in a virtual environment in the user's cache, the first time, and return it.

    Raises ReaderUnavailable, with the reason, when that fails.
    """
    home = cache_folder() / f"msprof-analyze-{VERSION}-cp{sys.version_info.major}{sys.version_info.minor}"
    cache_folder().mkdir(parents=True, exist_ok=True)
    with home.with_name(f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a virtual environment cannot be moved into place when it is ready
        if not (home / "complete").exists():
            fill(home)
    return MsprofAnalyze(home / "bin/msprof-analyze")


def fill(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    install_it = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"msprof-analyze=={VERSION}")
    for command in ((sys.executable, "-m", "venv", str(home)), (str(home / "bin/python"), *install_it)):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise ReaderUnavailable(f"msprof-analyze {VERSION} cannot be installed: {done.stderr.strip()[-300:]}")
    (home / "complete").touch()
