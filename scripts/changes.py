"""Why a case has to be measured again, in words: what differs between it as it is now and its newest capture.

Of the captures that were made in the present environment, if there are any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from scripts import artifacts, captures, key
from scripts.artifacts import InputsRecord
from scripts.cases import Argument, Case
from scripts.devices import identity
from scripts.errors import ArtifactError
from scripts.plan import PlannedCase, roots

MOST_CHANGES = 4  # named in one sentence


def why(planned: PlannedCase) -> str:
    """One sentence without its full stop, such as `torch was 2.12.0 and is 2.13.0`."""
    here = key.facts(identity.resolve(planned.device))
    others = planned.folder.parent
    before = captures.newest(others, facts=here, other_than=planned.key) or captures.newest(
        others, other_than=planned.key
    )
    if before is None:
        return "not measured yet"
    try:
        record = artifacts.read(before / "inputs.json", InputsRecord)
    except ArtifactError:
        return f"not measured yet as it is now; {before.name} does not say what it was measured with"
    found = list(_changes(planned, record))
    if not found:
        return (
            "its table of cases has changed"
            if planned.case.source == "cann_bench"
            else "the way of measuring has changed"
        )
    rest = f" and {len(found) - MOST_CHANGES} more changes" if len(found) > MOST_CHANGES else ""
    return "; ".join(found[:MOST_CHANGES]) + rest


def _changes(planned: PlannedCase, before: InputsRecord) -> Iterator[str]:
    device = identity.resolve(planned.device)
    kind = key.kind_of(before.key)
    if kind != device.kind:
        yield f"measured on {kind} before, now on {device.kind}"
    else:
        yield from _differences(_facts(before.device_facts), _facts(key.facts(device)))
    yield from _case_changes(before.case, planned.case)
    if before.code:
        yield from _code_changes(before.code, _code(planned.case.golden))


def _facts(known: Mapping[str, str]) -> dict[str, str]:
    return {"device model" if name == "model" else name: value for name, value in known.items()}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for entry in dict.fromkeys((*old, *new)):
        if old.get(entry) != new.get(entry):
            yield f"{entry} was {_shown(old.get(entry))} and is {_shown(new.get(entry))}"


def _case_changes(old: Case, new: Case) -> Iterator[str]:
    for name in ("source", "function", "mode"):
        if getattr(old, name) != getattr(new, name):
            yield f"{name} was {_shown(getattr(old, name))} and is {_shown(getattr(new, name))}"
    yield from _differences(_settings(old), _settings(new))
    yield from _differences(_arguments(old), _arguments(new))


def _settings(case: Case) -> dict[str, Any]:
    measured = key.measured_settings(case.settings)
    return {field.name: getattr(measured, field.name) for field in fields(measured)}


def _arguments(case: Case) -> dict[str, str]:
    return {argument.name: _argument(argument) for argument in case.arguments}


def _argument(argument: Argument) -> str:
    if argument.is_value:
        return _shown(argument.value)
    drawn = [f"{spec.dtype}[{','.join(map(str, spec.shape))}] {spec.init}" for spec in argument.tensors]
    return f"[{'; '.join(drawn)}]" if argument.is_list else drawn[0]


def _code_changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield f"{name} {'is no longer used' if name not in new else 'is new' if name not in old else 'has changed'}"


@lru_cache
def _code(golden: str) -> dict[str, str]:
    return key.code(Path(golden), roots())


def _shown(value: Any) -> str:
    text = "absent" if value is None or value == "" else str(value)
    return re.sub(r"\s+", " ", text)
