"""Reading a cann-bench operator's `proto.yaml` and `cases.yaml` (or `cases.csv`), without torch.

An entry of `input_shape` is one tensor's shape, a list of shapes (a list of tensors) or null (an optional input left
out); entries are in the order of proto.yaml's inputs, and what is missing at the end is left out, too. A value range is
`[low, high]`, both included; there is one per input, by order or by name, or one per tensor of a list.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from scripts import dtypes, names
from scripts.errors import ConfigError

COLUMNS = ("input_shape", "dtype", "attrs", "value_range")  # of cases.csv, each holding JSON
Shape = tuple[int, ...]
Range = tuple[int | float, int | float]


@dataclass(frozen=True)
class CannInput:
    """One input of an operator, as proto.yaml declares it."""

    name: str
    dtypes: tuple[str, ...]
    is_list: bool = False


@dataclass(frozen=True)
class CannProto:
    """An operator, as proto.yaml declares it."""

    name: str
    function: str  # of golden.py, "" when the schema does not say it
    inputs: tuple[CannInput, ...]
    attributes: dict[str, str]  # type by name


@dataclass(frozen=True)
class CannTensor:
    """What is drawn for one input of a case; several shapes make a list of tensors."""

    name: str
    shapes: tuple[Shape, ...]
    dtype: str
    is_list: bool
    ranges: tuple[Range | None, ...]  # of values, per shape; None: the format's default

    @property
    def nbytes(self) -> int:
        """Bytes of all its tensors."""
        total = 0
        for shape in self.shapes:
            elements = 1
            for length in shape:
                elements *= length
            total += elements * dtypes.DTYPES[self.dtype].nbytes
        return total


@dataclass(frozen=True)
class CannCase:
    """One case: an entry per input of the proto, None where it is left out."""

    name: str
    tensors: tuple[CannTensor | None, ...]
    attributes: dict[str, Any]


@lru_cache(maxsize=64)
def proto(folder: Path) -> CannProto:
    """The declaration in `folder`; ConfigError when it cannot be read."""
    path = folder / "proto.yaml"
    operator = _mapping(_yaml(path), "operator", path)
    inputs = tuple(
        CannInput(str(entry["name"]), tuple(_listed(entry.get("dtype"))), bool(entry.get("is_list")))
        for entry in _entries(operator, "inputs", path)
    )
    match = re.match(r"\s*(\w+)\s*\(", str(operator.get("schema") or ""))
    attributes = {str(entry["name"]): str(entry.get("type", "")) for entry in _entries(operator, "attrs", path)}
    return CannProto(str(operator.get("name") or folder.name), match[1] if match else "", inputs, attributes)


def case(folder: Path, name: str) -> CannCase:
    """The case called `name`, its `case_id`; ConfigError when there is none or it does not fit the proto."""
    rows = _rows(folder)
    if name not in rows:
        raise ConfigError(
            f"{_table(folder)} has no case_id {name}.{names.did_you_mean(name, rows)} Its {len(rows)} case_ids: "
            f"{', '.join(list(rows)[:20])}."
        )
    return _case(name, rows[name], proto(folder), _table(folder))


def content(folder: Path, name: str) -> object:
    """All that decides what case `name` calls, for its key; what cannot be read is told when the case runs."""
    try:
        row = _rows(folder).get(name, {})
        return [proto(folder), {column: row.get(column) for column in COLUMNS}]
    except (ConfigError, OSError) as error:
        return str(error)


def case_names(folder: Path) -> list[str]:
    """Every `case_id`, in the order of the file."""
    return list(_rows(folder))


@lru_cache(maxsize=64)
def _rows(folder: Path) -> dict[str, dict[str, Any]]:
    path = _table(folder)
    if path.suffix == ".csv":
        rows = _csv(path)
    else:
        document = _yaml(path)
        rows = document if isinstance(document, list) else _entries(document, "cases", path)
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if not isinstance(row, dict) or row.get("case_id") is None:
            raise ConfigError(f"{path}: entry {len(found) + 1} has no case_id. Every case needs one.")
        name = str(row["case_id"])
        if name in found:
            raise ConfigError(f"{path}: case_id {name} occurs twice. Give each case its own.")
        found[name] = row
    return found


def _table(folder: Path) -> Path:
    """cases.yaml, or cases.csv where only that is there."""
    for name in ("cases.yaml", "cases.csv"):
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(f"{folder} has neither cases.yaml nor cases.csv. A cann-bench operator needs one of them.")


def _case(name: str, row: dict[str, Any], declared: CannProto, path: Path) -> CannCase:
    where = f"{path}: case_id {name}"
    shapes = row.get("input_shape")
    if not isinstance(shapes, list):
        raise ConfigError(f"{where}: input_shape is {shapes!r}. It must be a list with an entry per input.")
    if shapes and all(isinstance(length, int) for length in shapes):
        shapes = [shapes]
    if len(shapes) > len(declared.inputs):
        raise ConfigError(
            f"{where}: input_shape has {len(shapes)} entries, and proto.yaml has {len(declared.inputs)} inputs. "
            "Give the case an entry per input at most, or declare the others in proto.yaml."
        )
    types = _per_input(row.get("dtype"), len(shapes), f"{where}: dtype")
    ranges = _ranges(row.get("value_range"), declared, len(shapes))
    entries = zip(declared.inputs, shapes, types, ranges, strict=False)
    # With an entry for every input nothing can have slipped; with fewer, a dtype that does not fit shows it.
    found = [_tensor(where, len(shapes) < len(declared.inputs), *entry) for entry in entries]
    texts = [key for key, kind in declared.attributes.items() if kind.casefold() in ("str", "string")]
    attributes = {str(key): value if key in texts else _value(value) for key, value in (row.get("attrs") or {}).items()}
    return CannCase(name, (*found, *(None for _ in declared.inputs[len(found) :])), attributes)


def _tensor(
    where: str, check: bool, declared: CannInput, shape: Any, dtype: Any, value_range: Any
) -> CannTensor | None:
    if shape is None:
        return None
    nested = isinstance(shape, list) and bool(shape) and all(isinstance(part, list) for part in shape)
    shapes = shape if nested else [shape]
    if not all(isinstance(part, list) and all(type(n) is int and n >= 0 for n in part) for part in shapes):
        raise ConfigError(
            f"{where}: the shape of {declared.name} is {shape!r}. Allowed: lengths, a list of shapes, null."
        )
    return CannTensor(
        name=declared.name,
        shapes=tuple(tuple(part) for part in shapes),
        dtype=_dtype(where, declared, dtype, check),
        is_list=declared.is_list or nested,
        ranges=_limits(f"{where}: the value_range of {declared.name}", value_range, len(shapes)),
    )


def _dtype(where: str, declared: CannInput, dtype: Any, check: bool) -> str:
    """torch's name of the dtype; one that torch does not have stays as it is."""
    if isinstance(dtype, list):
        if len(set(dtype)) != 1:
            raise ConfigError(f"{where}: {declared.name} has the dtypes {dtype}. A list of tensors has one.")
        dtype = dtype[0]
    known = dtypes.alias(str(dtype)) or str(dtype)
    if check and known in dtypes.DTYPES and declared.dtypes and not {str(dtype), known} & set(declared.dtypes):
        raise ConfigError(
            f"{where}: entry {declared.name} is {dtype}, and proto.yaml allows {', '.join(declared.dtypes)} there. "
            "Entries are in the order of proto.yaml's inputs: mark each optional one that is left out with null."
        )
    return known


def _limits(where: str, value: Any, count: int) -> tuple[Range | None, ...]:
    """A range per tensor: one holds for all tensors of a list."""
    nested = isinstance(value, list) and bool(value) and all(isinstance(part, list) for part in value)
    parts = [_limit(where, part) for part in (value if nested else [value])]
    if len(parts) not in (1, count):
        raise ConfigError(f"{where} has {len(parts)} entries for {count} tensors. Give one for each, or one for all.")
    return tuple(parts * count if len(parts) == 1 else parts)


def _limit(where: str, value: Any) -> Range | None:
    if value is None:
        return None
    limits = [_value(limit) for limit in value] if isinstance(value, list) else [_value(value)]
    if not 1 <= len(limits) <= 2 or not all(isinstance(limit, int | float) for limit in limits):
        raise ConfigError(f"{where} is {value!r}. It must be [low, high] or one number.")
    return limits[0], limits[-1]


def _per_input(value: Any, count: int, where: str) -> list[Any]:
    """One entry per input; one alone holds for all."""
    listed = value if isinstance(value, list) else [value]
    if len(listed) == 1:
        return listed * count
    if len(listed) != count:
        raise ConfigError(f"{where} has {len(listed)} entries for {count} inputs. Give one for each, or one for all.")
    return listed


def _ranges(value: Any, declared: CannProto, count: int) -> list[Any]:
    """A range per input. `[low, high]` alone is the first one's; the last of a list holds for what follows."""
    if isinstance(value, dict):
        return [value.get(entry.name) for entry in declared.inputs[:count]]
    if not isinstance(value, list) or not value:
        return [None] * count
    if not any(isinstance(entry, list) or entry is None for entry in value):
        return [value, *[None] * (count - 1)]
    return [*value, *[value[-1]] * (count - len(value))][:count]


def _value(value: Any) -> Any:
    """`"inf"`, `"-inf"`, `"nan"` and numbers in quotes as numbers."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _csv(path: Path) -> list[dict[str, Any]]:
    rows = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        for row in reader:
            try:
                cells = {name: json.loads(row[name]) if row.get(name) else None for name in COLUMNS}
            except ValueError as error:
                raise ConfigError(
                    f"{path}: case_id {row.get('case_id')} holds a cell that is no JSON: {error}."
                ) from None
            rows.append({"case_id": row.get("case_id") or None, **cells})
    return rows


def _yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} is missing. A cann-bench operator needs it.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {' '.join(str(error).split())}.") from None


def _mapping(document: Any, key: str, path: Path) -> dict[str, Any]:
    if isinstance(document, dict) and isinstance(document.get(key), dict):
        return document[key]
    raise ConfigError(f"{path} has no mapping `{key}`. Is it a cann-bench file?")


def _entries(mapping: Any, key: str, path: Path) -> list[dict[str, Any]]:
    found = (mapping.get(key) or []) if isinstance(mapping, dict) else None
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ConfigError(f"{path}: `{key}` is no list of mappings. Is it a cann-bench file?")
    return found


def _listed(value: Any) -> Iterable[str]:
    return map(str, value if isinstance(value, list) else [value] if value else [])
