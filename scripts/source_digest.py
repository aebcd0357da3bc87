"""Digests of code that say when it means something else: comments, docstrings and layout do not count."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

MEMORY = Path(".snakemake/goldenprof")


def digest(files: Iterable[Path], roots: Iterable[Path]) -> str:
    """SHA-256 (hex) of the normalised source of `files` and of every local module they import, also indirectly.

    A module is local when its file lies under one of `roots`; installed packages are known by their version instead.
    """
    total = hashlib.sha256()
    for name, own in by_file(files, roots).items():
        total.update(f"{name}\0{own}\n".encode())
    return total.hexdigest()


def by_file(files: Iterable[Path], roots: Iterable[Path]) -> dict[str, str]:
    """The digest of each file that `digest` covers, by its path as seen from its root."""
    roots = tuple(root.resolve() for root in roots)
    closure = sorted(_closure(tuple(file.resolve() for file in files), roots))
    return {_name(path, roots): _file_digest(path, _stamp(path)) for path in closure}


def _closure(files: tuple[Path, ...], roots: tuple[Path, ...]) -> set[Path]:
    seen: set[Path] = set()
    waiting = list(files)
    known = len(_memory())
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting.extend(_imports(path, _stamp(path), roots))
    if len(_memory()) > known:
        _remember()
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


def _file_digest(path: Path, stamp: tuple[int, int, int]) -> str:
    return _read(path, stamp).digest


class _Import(msgspec.Struct, array_like=True, frozen=True):
    """One import statement: `from <level dots><module> import <names>`, or `import <names>` with level -1."""

    level: int
    module: str
    names: tuple[str, ...]


class _Source(msgspec.Struct, array_like=True, frozen=True):
    """One file: the digest of what it means, and its import statements."""

    digest: str
    imports: tuple[_Import, ...] = ()


@cache
def _read(path: Path, stamp: tuple[int, int, int]) -> _Source:
    source = path.read_bytes()
    content = hashlib.sha256(source).hexdigest()
    if (known := _memory().get(content)) is None:
        known = _memory()[content] = _analyse(source, content)
    return known


def _analyse(source: bytes, content: str) -> _Source:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # the step that loads it says what is wrong
        return _Source(content)
    parts: list[str] = []
    imports: list[ast.Import | ast.ImportFrom] = []
    _flatten(tree, parts, imports)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return _Source(digest, tuple(map(_statement, imports)))


def _statement(node: ast.Import | ast.ImportFrom) -> _Import:
    names = tuple(alias.name for alias in node.names)
    return _Import(node.level, node.module or "", names) if isinstance(node, ast.ImportFrom) else _Import(-1, "", names)


@cache
def _memory() -> dict[str, _Source]:
    """What is known of files by their content, from earlier starts: parsing costs more than all else here."""
    try:
        return msgspec.msgpack.decode(_memory_file().read_bytes(), type=dict[str, _Source])
    except (OSError, msgspec.MsgspecError):
        return {}


def _memory_file() -> Path:
    """One for each version of Python and of this module, whose answers may differ."""
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    return MEMORY / f"sources-{sys.version_info.major}.{sys.version_info.minor}-{own}.msgpack"


def _remember() -> None:
    """Keep the memory for the next start, where there is a run's folder for it; another process may do so too."""
    if not MEMORY.is_dir():
        return
    file = _memory_file()
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        temporary.write_bytes(msgspec.msgpack.encode(_memory()))
        temporary.replace(file)
    except OSError:
        temporary.unlink(missing_ok=True)


def _flatten(node: object, parts: list[str], imports: list[ast.Import | ast.ImportFrom]) -> None:
    """Append the node's meaning to `parts`. Empty fields are left out: which of them exist differs between Pythons."""
    if isinstance(node, ast.AST):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        parts.append(type(node).__name__)
        for name in node._fields:
            value: Any = getattr(node, name, None)
            if name == "body" and isinstance(node, _DOCUMENTED):
                value = _without_docstring(value)
            if value is not None and value != []:
                parts.append(name)
                _flatten(value, parts, imports)
        parts.append(")")
    elif isinstance(node, list):
        parts.append("[")
        for item in node:
            _flatten(item, parts, imports)
        parts.append("]")
    else:
        parts.append(repr(node))


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return body[1:] or [ast.Pass()]
    return body


@cache
def _imports(path: Path, stamp: tuple[int, int, int], roots: tuple[Path, ...]) -> tuple[Path, ...]:
    found: list[Path] = []
    for statement in _read(path, stamp).imports:
        if statement.level < 0:
            for name in statement.names:
                found += _resolve(name, (path.parent, *roots))
        else:
            found += _from_import(statement, path, roots)
    return tuple(file for file in found if any(file.is_relative_to(root) for root in roots))


def _from_import(statement: _Import, path: Path, roots: tuple[Path, ...]) -> list[Path]:
    base = path.parents[max(statement.level - 1, 0)]
    places = (base,) if statement.level else (base, *roots)
    names = [f"{statement.module}.{name}".strip(".") for name in statement.names]
    package = [base / "__init__.py"] if statement.level and (base / "__init__.py").is_file() else []
    return package + [file for name in [statement.module, *names] if name for file in _resolve(name, places)]


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
