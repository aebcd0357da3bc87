"""The session's stand-in Ascend machine. A test elsewhere gets it by importing `ascend` from here."""

from __future__ import annotations

import pytest

from . import workflow_run
from .build import StandInUnavailable
from .stand_in import Ascend, build


@pytest.fixture(scope="session")
def ascend(tmp_path_factory: pytest.TempPathFactory) -> Ascend:
    """torch_npu and a stand-in CANN for child processes; skips, saying why, where they cannot be had."""
    try:
        return build(tmp_path_factory.mktemp("cann") / "toolkit")
    except StandInUnavailable as reason:
        pytest.skip(f"no stand-in Ascend runtime: {reason}")


@pytest.fixture(scope="session")
def sweep(ascend: Ascend, tmp_path_factory: pytest.TempPathFactory) -> workflow_run.Sweep:
    """Eleven cases profiled by the whole workflow on the stand-in."""
    return workflow_run.sweep(ascend, tmp_path_factory.mktemp("sweep"))
