"""Importing a file that this project did not write, and telling what it lacks from what is wrong with it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from scripts.errors import CaseFailure
from scripts.sources import absent_npu
from scripts.status import Status

# Packages whose errors mean that something had to be fetched: model weights, a data set.
NETWORK_PACKAGES = ("requests", "urllib3", "httpx", "huggingface_hub", "aiohttp")
GOLDENS = "golden"  # the package of goldens
NETWORK_WORDS = ("huggingface.co", "connection error", "name resolution", "max retries exceeded")


def load(path: Path, roots: Iterable[Path]) -> ModuleType:
    """Import `path` under a name of its own, with `roots` and its own folder importable.

    A file that takes an NPU for granted is tried once more with what scripts/sources/absent_npu.py stands in. Raises
    CaseFailure as `failure` words it.
    """
    try:
        return _import(path, roots)
    except Exception as error:
        if not absent_npu.wanted(error):
            raise failure(path, "cannot be imported", error) from error
    absent_npu.pretend()
    try:
        return _import(path, roots)
    except Exception as error:
        raise failure(path, "cannot be imported", error) from error


def _import(path: Path, roots: Iterable[Path]) -> ModuleType:
    _make_importable([path.resolve().parent, *roots])
    spec = importlib.util.spec_from_file_location(f"goldenprof_golden_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CaseFailure(
            Status.GOLDEN_FAILED, f"{path} is not a Python file.", "Give `golden` a file that ends in .py."
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _make_importable(places: list[Path]) -> None:
    """Let a golden import what lies beside it and in the project's roots, in this order.

    After the installed packages: a golden's neighbour named like one must not take its place. The package `golden`
    has its parts in several places, and the first one wins: the project's own before this workflow's.
    """
    for place in places:
        if str(place) not in sys.path:
            sys.path.append(str(place))
    if GOLDENS not in sys.modules and (
        parts := [str(place / GOLDENS) for place in places if (place / GOLDENS).is_dir()]
    ):
        package = ModuleType(GOLDENS)
        package.__path__ = parts
        sys.modules[GOLDENS] = package


def failure(path: Path, what: str, error: BaseException) -> CaseFailure:
    """The case's failure for an exception of its file: SKIPPED when a package or the network is missing."""
    if isinstance(error, CaseFailure):
        return error
    if package := missing_package(error, path):
        return CaseFailure(
            Status.SKIPPED,
            f"{path} needs the package {package}, which is not installed.",
            f"Install {package} into the environment that runs the workflow, and run the case again.",
        )
    message = f"{path} {what}: {type(error).__name__}: {error}"
    if _wants_network(error):
        return CaseFailure(
            Status.SKIPPED,
            message,
            "It fetches something over the network: run it where that works, or fetch it first.",
        )
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return CaseFailure(Status.SKIPPED, message, "Make the sizes smaller, or run it on a machine with more memory.")
    return CaseFailure(Status.GOLDEN_FAILED, message, "The whole traceback is in the log.")


def missing_package(error: BaseException, path: Path) -> str:
    """The package that is not installed, "" when the error is another or the module is a file beside `path`."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    package = error.name.partition(".")[0]
    beside = path.resolve().parent
    local = (beside / package).exists() or (beside / f"{package}.py").exists()
    return "" if local or PathFinder.find_spec(package) else package


def _wants_network(error: BaseException) -> bool:
    origin = type(error).__module__.partition(".")[0]
    text = str(error).casefold()
    return (
        origin in NETWORK_PACKAGES
        or isinstance(error, ConnectionError)
        or (isinstance(error, OSError) and any(word in text for word in NETWORK_WORDS))
    )
