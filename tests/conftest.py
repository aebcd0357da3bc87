"""What holds for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def outside_any_session() -> Iterator[None]:
    """A command that runs inside the test's process begins a session in its environment: it ends with the test.

    Else the workflows that later tests start would share one warm parent, which lives as long as this process.
    """
    os.environ.pop("GOLDENPROF_SESSION", None)
    yield
    os.environ.pop("GOLDENPROF_SESSION", None)
