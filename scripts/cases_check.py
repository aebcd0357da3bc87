"""What a cases file must satisfy beyond its schema: names, files, recipes, and what belongs to which mode."""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts import cases_schema, inits, names
from scripts.devices import pool
from scripts.dtypes import DTYPES
from scripts.errors import ConfigError
from scripts.yaml_values import Key

_ARGUMENT_KEYS = ("inputs", "scalars", "kwargs")
_FOREIGN = ("kernelbench", "cann_bench")
_KERNELBENCH_ONLY = "belongs to `source: kernelbench`"
_MAX_NBYTES = 2**63 - 1


class Checker:
    """Collects (key, sentence) pairs; what the schema already refused (`refused`) is passed over."""

    def __init__(self, root: Path, refused: Iterable[Key]) -> None:
        self._found: dict[tuple[Key, str], None] = {}
        self._root = root
        # A value is sound when nothing in it was refused.
        self._unsound = {key[:length] for key in refused for length in range(len(key) + 1)}

    @property
    def found(self) -> list[tuple[Key, str]]:
        """The mistakes so far: where, and a sentence."""
        return list(self._found)

    def check(self, document: Any) -> None:
        """Check a whole cases file, also one that the schema refuses in parts."""
        if not isinstance(document, dict):
            return
        if isinstance(document.get("defaults"), dict):
            self._finite_settings(document["defaults"], ("defaults",))
        if "devices" in document and self._sound(("devices",)):
            for message in pool.problems(document["devices"]):
                self._note(("devices",), message)
        operators = document.get("operators")
        if not isinstance(operators, dict):
            return
        self._same_letters(operators, ("operators",))
        self._aliases(operators, ("operators",))
        for name, operator in operators.items():
            at: Key = ("operators", name)
            self._note(at, names.operator_problem(name))
            if isinstance(operator, dict):
                self._operator(operator, at)

    def _operator(self, operator: dict[str, Any], at: Key) -> None:
        golden = operator.get("golden")
        if isinstance(golden, str) and self._sound((*at, "golden")):
            self._golden(golden, (*at, "golden"))
        self._name(operator, "family", at)
        self._source(operator, at)
        function = operator.get("function")
        if isinstance(function, str) and keyword.iskeyword(function):
            self._note((*at, "function"), f"{names.quote(function)} is a word of Python, not a function.")
        self._finite_settings(operator, at)
        cases = operator.get("cases")
        if not isinstance(cases, dict):
            return
        self._same_letters(cases, (*at, "cases"))
        self._aliases(cases, (*at, "cases"))
        for name, case in cases.items():
            self._note((*at, "cases", name), names.problem(name))
            if case is None or isinstance(case, dict):
                self._case(case or {}, operator.get("mode"), (*at, "cases", name))

    def _source(self, operator: dict[str, Any], at: Key) -> None:
        source = operator.get("source", "golden")
        if source in _FOREIGN and operator.get("mode") == "A":
            self._note((*at, "mode"), f"a {source} file makes its own inputs. Write B.")
        if source == "kernelbench" or not isinstance(source, str):
            return
        if "train" in operator:
            self._note((*at, "train"), f"{_KERNELBENCH_ONLY}. Remove it.")
        cases = operator.get("cases")
        for name, case in cases.items() if isinstance(cases, dict) else ():
            if isinstance(case, dict) and "constants" in case:
                self._note((*at, "cases", name, "constants"), f"{_KERNELBENCH_ONLY}. Remove it.")

    def _golden(self, golden: str, at: Key) -> None:
        path = self._root / golden
        try:
            if path.is_file():
                return
            siblings = [entry.name for entry in path.parent.glob("*.py")]
        except OSError as error:
            self._note(at, f"{names.quote(golden)} cannot be looked at: {error.strerror}. Correct the path.")
            return
        hint = names.did_you_mean(path.name, siblings) or " Write the file or correct the path."
        self._note(at, f"there is no file {names.quote(golden)} in {self._root}.{hint}")

    def _case(self, case: dict[str, Any], mode: Any, at: Key) -> None:
        self._name(case, "tier", at)
        self._finite_settings(case, at)
        if mode == "A" and "inputs" not in case:
            self._note(
                at,
                "mode A needs `inputs`: tensors by argument name, each with shape and dtype. Add them, or use mode B.",
            )
        if mode == "B":
            for key in _ARGUMENT_KEYS:
                if key in case:
                    message = (
                        "belongs to mode A; in mode B the golden's `_make_inputs(device)` makes them all. Remove it."
                    )
                    self._note((*at, key), message)
        if isinstance(case.get("constants"), dict):
            self._json(case["constants"], (*at, "constants"))
        first: dict[str, str] = {}
        for key in _ARGUMENT_KEYS:
            arguments = case.get(key)
            if isinstance(arguments, dict):
                for name, value in arguments.items():
                    self._argument_name(name, first.setdefault(name, key), (*at, key, name))
                    if key == "inputs":
                        self._tensors(value, (*at, key, name))
                    else:
                        self._json(value, (*at, key, name))

    def _argument_name(self, name: str, group: str, at: Key) -> None:
        if not name.isidentifier() or keyword.iskeyword(name):
            self._note(
                at, f"{names.quote(name)} cannot be an argument's name in Python. Write the golden's own name of it."
            )
        elif group != at[-2]:
            self._note(at, f"the argument {name} is already given under `{group}`. Remove one of the two.")

    def _tensors(self, value: Any, at: Key) -> None:
        if isinstance(value, list):
            for index, item in enumerate(value):
                self._tensor(item, (*at, index))
        else:
            self._tensor(value, at)

    def _tensor(self, tensor: Any, at: Key) -> None:
        if not isinstance(tensor, dict):
            return
        recipe = tensor.get("init", cases_schema.default_init())
        try:
            init = inits.parse(init_text(recipe)) if self._sound((*at, "init")) else None
        except ConfigError as error:
            self._note((*at, "init"), str(error))
            init = None
        if not self._sound(at):
            return
        shape = tuple(map(int, tensor["shape"]))
        nbytes = math.prod(shape) * DTYPES[tensor["dtype"]].nbytes
        if nbytes > _MAX_NBYTES:
            self._note(
                (*at, "shape"), f"{list(shape)} of {tensor['dtype']} are {nbytes} bytes, more than a tensor can have."
            )
        elif init is not None:
            try:
                inits.check(init, shape, tensor["dtype"])
            except ConfigError as error:
                default = "" if "init" in tensor else "no init is given, and the default does not fit: "
                self._note((*at, "init"), f"{default}{error}")

    def _json(self, value: Any, at: Key) -> None:
        """Numbers that JSON cannot carry exactly would come back as others, or not at all."""
        if isinstance(value, dict):
            for key, item in value.items():
                self._json(item, (*at, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self._json(item, (*at, index))
        elif isinstance(value, float) and not math.isfinite(value):
            self._note(
                at,
                f"found {value}. Allowed: finite numbers, as in JSON. A tensor may hold it: `init: const({value})`.",
            )
        elif isinstance(value, int) and not -(2**63) <= value < 2**64:
            self._note(at, f"found a whole number of {value.bit_length()} bits. Allowed: at most 64 bits.")

    def _finite_settings(self, level: dict[str, Any], at: Key) -> None:
        """A NaN passes every comparison of the schema."""
        for key in cases_schema.defaults():
            value = level.get(key)
            if isinstance(value, float) and math.isnan(value):
                self._note((*at, key), "found nan. Allowed: a finite number. Correct the value.")

    def finite_settings(self, settings: dict[str, Any]) -> None:
        """The same for settings that stand alone."""
        self._finite_settings(settings, ())

    def _name(self, level: dict[str, Any], key: str, at: Key) -> None:
        value = level.get(key)
        if isinstance(value, str):
            self._note((*at, key), names.problem(value))

    def _same_letters(self, mapping: dict[str, Any], at: Key) -> None:
        first: dict[str, str] = {}
        for name in mapping:
            other = first.setdefault(name.casefold(), name)
            if other != name:
                message = (
                    f"{names.quote(name)} and {names.quote(other)} differ only by letter case; "
                    "their files would collide on some file systems. Rename one."
                )
                self._note((*at, name), message)

    def _aliases(self, mapping: dict[str, Any], at: Key) -> None:
        """A former name must be free, or two histories would run together."""
        taken = {name: f"is the name of {names.quote(name)} itself" for name in mapping}
        for name, entry in mapping.items():
            found = entry.get("aliases") if isinstance(entry, dict) else None
            for index, alias in enumerate(found if isinstance(found, list) else ()):
                key = (*at, name, "aliases", index)
                if not isinstance(alias, str) or not self._sound(key):
                    continue
                self._note(key, names.problem(alias))
                if alias in taken:
                    self._note(
                        key, f"{names.quote(alias)} {taken[alias]}. An alias is a name that is no longer in use."
                    )
                taken.setdefault(alias, f"is an alias of {names.quote(name)} already")

    def _sound(self, key: Key) -> bool:
        return key not in self._unsound

    def _note(self, key: Key, message: str) -> None:
        if message:
            self._found[key, message] = None


def init_text(recipe: str | float) -> str:
    """An `init` as text: a bare number in YAML is a constant."""
    return recipe if isinstance(recipe, str) else repr(recipe)
