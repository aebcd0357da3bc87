"""Handing a job one free device of those that it may run on, and keeping other work off the CPU while it measures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from scripts import key, locks
from scripts.devices import identity, usage, visible
from scripts.devices.identity import DeviceIdentity
from scripts.errors import CaseFailure
from scripts.plan import PlannedCase
from scripts.status import Status

Phase = Callable[[str], None]  # told "waiting", "opening DEVICE", "running", "finishing" and "analysing"
OPENING = "opening"
ADVICE = "`goldenprof doctor` says what is there and what is missing."


@contextmanager
def device_for(
    setting: str, among: Sequence[str], phase: Phase, unchecked: Collection[str] = ()
) -> Iterator[DeviceIdentity]:
    """Hold a device for one measurement: a free one of `among`, which it alone sees then, or what `setting` means.

    `phase` is told "waiting" while none is free, and then that one is opened; the caller says when it runs. A device
    whose name is in `unchecked` is first asked whether it is busy with the work of others. Raises
    CaseFailure(DEVICE_UNAVAILABLE) when the device is not there or busy.
    """
    found = [identity.resolve(name) for name in among or (setting,)]
    if not (there := [device for device in found if not device.problem]):
        raise CaseFailure(Status.DEVICE_UNAVAILABLE, " ".join(dict.fromkeys(one.problem for one in found)), ADVICE)
    by_lock = {device.lock: device for device in there}
    with locks.hold_one(list(by_lock), waiting=lambda: phase("waiting")) as lock:
        device = by_lock[lock]
        phase(f"{OPENING} {device.name}" if among else "running")
        if device.name in unchecked and (trouble := usage.busy(device)):
            raise CaseFailure(Status.DEVICE_UNAVAILABLE, trouble, "Wait for it, or leave the device out of `devices`.")
        if among or device.cores:
            visible.show_only(device)
        yield device


@dataclass(frozen=True)
class Room:
    """Where other work may run and disturb no measurement: on `cores`, or on those of a place that is free of one."""

    cores: frozenset[int]
    places: tuple[tuple[str, frozenset[int]], ...] = ()  # the lock that keeps measurements out, and its cores

    @contextmanager
    def enter(self) -> Iterator[frozenset[int]]:
        """Wait until there is room and keep measurements out of it; gives the cores that the work is to be kept on.

        Raises Interrupted after `locks.give_up`.
        """
        if not self.places:
            yield self.cores
            return
        places = dict(self.places)
        with locks.hold_one(list(places), shared=True) as place:
            yield places[place]


def room_for(cases: Sequence[PlannedCase]) -> Room:
    """Room for work about `cases`: that of the first whose device is the CPU, if there is one."""
    first = min(cases, key=lambda planned: key.kind_of(planned.key) != "cpu")
    return room_beside(first.key, first.devices)


def room_beside(name: str, devices: Sequence[str]) -> Room:
    """Room for work for a case, in the key folder `name`: where the CPU does not measure; other devices are apart.

    Where the CPU is split, `devices` are the parts: the room is outside of them, or a part that does not measure.
    """
    usable = identity.usable_cores()
    if key.kind_of(name) != "cpu":
        return Room(usable)
    parts = [part.cores for part in map(identity.resolve, devices) if part.cores]
    if not parts:
        return Room(usable, (("cpu", usable),))
    spare = identity.runs(usable.difference(*parts))
    return Room(usable, tuple((f"cpu:{cores[0]}-{cores[-1]}", frozenset(cores)) for cores in (*spare, *parts)))
