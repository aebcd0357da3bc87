"""config/cases.schema.yaml: the defaults, the check of a cases file in sentences, and the tables for readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastjsonschema

from scripts import dtypes, inits, names, yaml_file, yaml_values
from scripts.yaml_values import Key

if TYPE_CHECKING:
    from jsonschema import ValidationError

SCHEMA_PATH = Path(__file__).resolve().parent.parent / "config" / "cases.schema.yaml"
_KINDS = {
    "object": "a mapping (`name: value`)",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}
_BOOLEAN_WORDS = ("yes", "no", "on", "off", "y", "n")


@cache
def schema() -> dict[str, Any]:
    """The JSON schema (draft 7) of cases.yaml."""
    return yaml_file.read(SCHEMA_PATH).value


def defaults() -> dict[str, Any]:
    """Every setting's default by name."""
    properties = schema()["definitions"]["settings"]["properties"]
    return {name: entry["default"] for name, entry in properties.items()}


def default_init() -> str:
    """The recipe of a tensor that names none."""
    return schema()["definitions"]["tensor"]["properties"]["init"]["default"]


def problems(value: Any, definition: str = "") -> list[tuple[Key, str]]:
    """What in `value` breaks the schema (or one of its definitions): where, and a sentence.

    Two validators of one schema: the compiled one answers in a tenth of the time, the other one lists every mistake.
    """
    try:
        _compiled(definition)(value)
        return []
    except fastjsonschema.JsonSchemaException as refusal:
        first = str(refusal)
    import jsonschema  # costs a tenth of a second, and only a wrong file needs it

    found: dict[tuple[Key, str], None] = {}
    for error in jsonschema.Draft7Validator(_part(definition)).iter_errors(value):
        found.update(dict.fromkeys(_sentences(error)))
    return list(found) or [((), f"does not fit {SCHEMA_PATH.name}: {first}. Correct the value.")]


@cache
def _compiled(definition: str) -> Callable[[Any], Any]:
    return fastjsonschema.compile(_part(definition), use_default=False, detailed_exceptions=False)


def _part(definition: str) -> dict[str, Any]:
    if not definition:
        return schema()
    return {"$ref": f"#/definitions/{definition}", "definitions": schema()["definitions"]}


def _sentences(error: ValidationError) -> Iterator[tuple[Key, str]]:
    at: Key = tuple(error.absolute_path)
    rule = error.validator
    entry: Any = error.schema  # a mapping: the schema has no boolean parts
    found: Any = error.instance
    if rule == "additionalProperties":
        keys = list(entry["properties"])
        for key in found:
            if key not in keys:
                yield (*at, key), _unknown_key(key, keys)
    elif rule == "required":
        for key in entry["required"]:
            if key not in found:
                yield at, f"the key `{key}` is missing. Add it: {_description(entry, key)}"
    elif rule in ("minItems", "minProperties"):
        yield at, "is empty. Allowed: at least one entry. Add one, or remove the key."
    elif rule == "maxItems":
        yield at, f"has {len(found)} entries. Allowed: at most {entry['maxItems']}. Remove some."
    elif rule == "enum" and isinstance(found, str):
        allowed = ", ".join(map(str, entry["enum"]))
        yield at, f"found {_show(found)}. Allowed: {allowed}.{_nearest_value(found, entry['enum'])}"
    else:
        yield at, f"found {_show(found)}. Allowed: {allowed_values(entry)}. {_advice(entry, found)}"


def _unknown_key(key: str, allowed: list[str]) -> str:
    hint = names.did_you_mean(key, allowed) or " Remove it or move it to where it belongs."
    return f"{names.quote(key)} is not a key here. Allowed: {', '.join(allowed)}.{hint}"


def _nearest_value(found: str, allowed: list[str]) -> str:
    other = dtypes.alias(found)
    if other in allowed:
        return f" Write {other}."
    return names.did_you_mean(found, allowed) or " Choose one of them."


def _description(entry: dict[str, Any], key: str) -> str:
    property_ = _resolved(entry["properties"][key])
    return property_.get("description", allowed_values(property_))


def _advice(entry: dict[str, Any], found: Any) -> str:
    types = _types(entry)
    if "boolean" in types and isinstance(found, str) and found.casefold() in _BOOLEAN_WORDS:
        return "Write true or false: yes, no, on and off are text in YAML 1.2."
    if (
        isinstance(found, str)
        and isinstance(yaml_values.scalar(found), int | float)
        and {"integer", "number"} & set(types)
    ):
        return "Write it without quotes."
    if "object" in types and isinstance(found, list):
        return "Write `name: value` lines, without dashes."
    if "array" in types and isinstance(found, int) and not isinstance(found, bool):
        return f"Write [{found}]."
    if types == ["string"] and isinstance(found, int | float):
        return "Text that looks like a number, true or false needs quotes."
    return "Correct the value."


def allowed_values(entry: dict[str, Any]) -> str:
    """What a property may be, in words."""
    if "x-allowed" in entry:
        return entry["x-allowed"]
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    words = " or ".join(_KINDS[name] for name in _types(entry) if name != "null")
    if "items" in entry and "type" in entry["items"]:
        item = entry["items"]
        return f"{words} of {_KINDS[item['type']].removeprefix('a ')}s of at least {item['minimum']}"
    if "maximum" in entry:
        low = f"from {entry['minimum']}" if "minimum" in entry else f"above {entry['exclusiveMinimum']}"
        words += f" {low} to {entry['maximum']}" if "minimum" in entry else f" {low}, at most {entry['maximum']}"
    return words


def _types(entry: dict[str, Any]) -> list[str]:
    kinds = entry.get("type", [])
    return kinds if isinstance(kinds, list) else [kinds]


def _show(value: Any) -> str:
    """A value as found, short and on one line, with what it is where that is not plain to see."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"{names.quote(value)} (text)"
    text = names.quote(json.dumps(value, ensure_ascii=False))[1:-1]
    kind = " (a mapping)" if isinstance(value, dict) else " (a list)" if isinstance(value, list) else ""
    return f"{text}{kind}"


def _resolved(entry: dict[str, Any]) -> dict[str, Any]:
    reference = entry.get("$ref")
    if reference is None:
        return entry
    node: Any = schema()
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return {**node, **{key: value for key, value in entry.items() if key != "$ref"}}


def table() -> str:
    """The keys of cases.yaml as Markdown tables, one per level, and the init recipes."""
    definitions = schema()["definitions"]
    settings = definitions["settings"]["properties"]
    levels = (
        ("Top level", schema(), ()),
        ("An operator", definitions["operator"], settings),
        ("A case", definitions["case"], settings),
        ("A tensor", definitions["tensor"], ()),
        ("Settings: under `defaults`, in an operator or in a case", definitions["settings"], ()),
    )
    recipes = ["### Init recipes", "", "| init | values |", "| --- | --- |"]
    recipes += [f"| `{form}` | {meaning} |" for form, meaning in inits.FORMS]
    parts = [_level(title, entry, skipped) for title, entry, skipped in levels]
    return "\n\n".join([*parts, "\n".join(recipes)]) + "\n"


def _level(title: str, level: dict[str, Any], skipped: Any) -> str:
    rows = [f"### {title}", "", "| key | allowed | default | meaning |", "| --- | --- | --- | --- |"]
    for key, raw in level["properties"].items():
        if key in skipped:
            continue
        entry = _resolved(raw)
        default = "required" if key in level.get("required", ()) else ""
        if "default" in entry:
            default = f"`{_yaml(entry['default'])}`"
        rows.append(f"| `{key}` | {allowed_values(entry)} | {default} | {entry.get('description', '')} |")
    if skipped:
        rows.append("| any setting | see below | that of the level above | Overrides the setting here. |")
    return "\n".join(rows)


def _yaml(value: Any) -> str:
    """A default as one would write it."""
    return value if isinstance(value, str) else json.dumps(value)
