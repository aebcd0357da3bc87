"""docs/ascend_checks.md lists tests that there are, and every trial of what can go wrong is in it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.workflow.conftest import ROOT

TABLE = ROOT / "docs/ascend_checks.md"
ID = re.compile(r"`(tests/[^`]+::[^`]+)`")


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """The ids of all tests of the files that the table names."""
    files = sorted({name.partition("::")[0] for name in ID.findall(TABLE.read_text())})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_every_test_that_the_table_names_is_there(collected: set[str]) -> None:
    without_parameters = {name.partition("[")[0] for name in collected}
    missing = [name for name in ID.findall(TABLE.read_text()) if name not in collected | without_parameters]
    assert not missing


def test_every_trial_is_in_the_table(collected: set[str]) -> None:
    listed = ID.findall(TABLE.read_text())
    trials = {name for name in collected if "::test_what_goes_wrong" in name} - {
        "tests/ascend/test_nothing_is_believed.py::test_what_goes_wrong_in_the_analysis[nothing]",
        # its own test says more
        "tests/ascend/test_nothing_is_believed.py::test_what_goes_wrong_on_the_device[exception in the region]",
        "tests/ascend/test_nothing_is_believed.py::test_what_goes_wrong_on_the_device[PROFILING_MODE]",
    }
    assert trials - set(listed) == set()
