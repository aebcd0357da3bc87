"""Injected faults: whole sweeps in temporary projects, most of them shared by many tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.conftest import Project, new_project
from tests.workflow.conftest import own_locks as own_locks  # used by every test here

GOLDENS = Path(__file__).with_name("goldens")
X = "inputs: {x: {shape: [8, 16], dtype: float32}}"
QUICK = "warmup: 1, iterations: 2, noise_mib: 1"


@pytest.fixture(scope="session")
def faulty_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    """Makes projects with the goldens of these tests, and with `golden/small_golden.py`."""

    def make(name: str) -> Project:
        project = new_project(tmp_path_factory.mktemp("faults") / name)
        shutil.copytree(
            GOLDENS, project.path / "golden", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
        return project

    return make
