"""`devices`: the devices that profile jobs are handed, one each; found without importing torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scripts.devices import identity
from scripts.devices.identity import DeviceIdentity
from scripts.errors import ConfigError

ALL = "all"
ALLOWED = (
    "`all`, or a list of devices: npu:0, cuda:1, cpu:0-3 (some cores), npu or cuda (all of the kind), cpu (all cores)"
)


@dataclass(frozen=True)
class Pool:
    """The devices by name; without any, each case's `device` alone says where it runs."""

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Any) -> Pool:
        """From the value of `devices` in cases.yaml, or its text on the command line; None is no pool.

        Raises ConfigError naming every mistake in it.
        """
        if value is None:
            return cls()
        if mistakes := list(problems(value)):
            raise ConfigError(" ".join(f"devices: {mistake}" for mistake in mistakes))
        return cls(tuple(dict.fromkeys(name for entry in _entries(value) for name in _meant(entry))))

    def __bool__(self) -> bool:
        return bool(self.names)

    @cached_property
    def members(self) -> tuple[DeviceIdentity, ...]:
        """Every device, those that are not here with their `problem`."""
        return tuple(map(identity.resolve, self.names))

    @property
    def usable(self) -> tuple[DeviceIdentity, ...]:
        """The devices that are here."""
        return tuple(device for device in self.members if not device.problem)

    def fitting(self, setting: str) -> tuple[DeviceIdentity, ...]:
        """The devices that a case with this `device` may be handed: one if it names one, of the pool or not."""
        if setting == "auto" and self:
            return self.members
        of_kind = tuple(device for device in self.members if device.kind == setting)
        return of_kind or (identity.resolve(setting),)


def problems(value: Any) -> Iterator[str]:
    """What cannot be meant by a value of `devices`, in sentences."""
    entries = _entries(value)
    if not entries:
        yield f"the list is empty. Allowed: {ALLOWED}."
    named: list[tuple[str, DeviceIdentity]] = []
    for entry in entries:
        if not isinstance(entry, str) or (entry != ALL and not _can_be_meant(entry)):
            yield f"there is no device {entry!r}. Allowed: {ALLOWED}."
        elif ":" in entry or entry == "cpu":
            device = identity.resolve(entry)
            for other, known in named:
                if _share(device, known):
                    yield f"{other} and {entry} are the same device or share cores. Name each one once."
            named.append((entry, device))
    if ALL in entries and len(entries) > 1:
        yield "`all` stands alone. Remove it, or everything else."


def _entries(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.strip().strip("[]").split(",") if part.strip()]
    return value if isinstance(value, list) else [value]


def _can_be_meant(entry: str) -> bool:
    if entry == "auto" or not identity.SETTING.fullmatch(entry):
        return False
    return not entry.startswith("cpu:") or bool(identity.cores_of(entry.partition(":")[2]))


def _meant(entry: str) -> Iterator[str]:
    """The devices' names: `all` is what `auto` takes its device from, a kind is every visible device of it."""
    kind = identity.resolve("auto").kind if entry == ALL else entry
    if ":" in kind or kind == "cpu":
        yield identity.resolve(kind).name
    else:
        yield from (f"{kind}:{index}" for index in range(max(len(identity.survey(kind).models), 1)))


def _share(one: DeviceIdentity, other: DeviceIdentity) -> bool:
    if one.kind == other.kind == "cpu":
        return not (one.cores and other.cores) or not set(one.cores).isdisjoint(other.cores)
    return one.lock == other.lock
