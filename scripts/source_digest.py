"""Digests of code that say when it means something else: comments, docstrings and layout do not count."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path


def digest(files: Iterable[Path], roots: Iterable[Path]) -> str:
    """SHA-256 (hex) of the normalised source of `files` and of every local module they import, also indirectly.

    A module is local when its file lies under one of `roots`; installed packages are known by their version instead.
    """
    roots = tuple(root.resolve() for root in roots)
    total = hashlib.sha256()
    for path in sorted(_closure(tuple(file.resolve() for file in files), roots)):
        total.update(f"{_name(path, roots)}\0{_file_digest(path, _stamp(path))}\n".encode())
    return total.hexdigest()


def local_modules(files: Iterable[Path], roots: Iterable[Path]) -> list[Path]:
    """`files` and the local modules that they import, also indirectly, sorted."""
    return sorted(_closure(tuple(file.resolve() for file in files), tuple(root.resolve() for root in roots)))


def _closure(files: tuple[Path, ...], roots: tuple[Path, ...]) -> set[Path]:
    seen: set[Path] = set()
    waiting = list(files)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting.extend(_imports(path, _stamp(path), roots))
    return seen


def _stamp(path: Path) -> tuple[int, int, int]:
    """Cache key of a file's content within one process; the digest itself never depends on time stamps."""
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _name(path: Path, roots: tuple[Path, ...]) -> str:
    """The path as seen from its root, so that a moved checkout has the same digest."""
    for root in roots:
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name


@cache
def _file_digest(path: Path, stamp: tuple[int, int, int]) -> str:
    source = path.read_bytes()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return hashlib.sha256(source).hexdigest()  # the step that loads it says what is wrong
    return hashlib.sha256(ast.dump(_without_docstrings(tree)).encode()).hexdigest()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:] or [ast.Pass()]
    return tree


@cache
def _imports(path: Path, stamp: tuple[int, int, int], roots: tuple[Path, ...]) -> tuple[Path, ...]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return ()
    found: list[Path] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found += _resolve(alias.name, (path.parent, *roots))
        elif isinstance(node, ast.ImportFrom):
            found += _from_import(node, path, roots)
    return tuple(file for file in found if any(file.is_relative_to(root) for root in roots))


def _from_import(node: ast.ImportFrom, path: Path, roots: tuple[Path, ...]) -> list[Path]:
    base = path.parents[max(node.level - 1, 0)]
    places = (base,) if node.level else (base, *roots)
    module = node.module or ""
    names = [f"{module}.{alias.name}".strip(".") for alias in node.names]
    package = [base / "__init__.py"] if node.level and (base / "__init__.py").is_file() else []
    return package + [file for name in [module, *names] if name for file in _resolve(name, places)]


def _resolve(module: str, places: tuple[Path, ...]) -> list[Path]:
    """The file of `module` and the `__init__.py` of each package above it, from the first place that has it."""
    parts = module.split(".")
    for place in places:
        target = place.joinpath(*parts)
        for file in (target.with_suffix(".py"), target / "__init__.py"):
            if file.is_file():
                packages = [place.joinpath(*parts[:depth]) / "__init__.py" for depth in range(1, len(parts))]
                return [file.resolve(), *(package.resolve() for package in packages if package.is_file())]
    return []
