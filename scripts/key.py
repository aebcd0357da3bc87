"""The content key: the name of the folder that a case's artifacts live in.

A key fixes everything that decides a number and is known without torch: what is called with which inputs and
settings, the code that runs, and the device with the versions on it. Freshness is then existence: no time stamp and
no metadata is asked, a revert finds the old folder, and `prof/` can be copied between machines.

    3f2a9c1b7d4e-cpu-1a2b3c4d  =  <case digest>-<device kind>-<environment digest>
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import msgspec

from scripts import source_digest
from scripts.cases import Case, Settings
from scripts.devices.identity import DeviceIdentity

# Raise when inputs are drawn or measured differently than before, so that old captures are not taken for new ones.
PROTOCOL = 1
PATTERN = re.compile(r"[0-9a-f]{12}-[a-z]+-[0-9a-f]{8}")
# Facts of a device that count by default: a change of any of them makes every case stale.
FACTS = ("torch", "torch_npu", "cann", "cuda", "driver", "omp_wait_policy", "model")


def case_digest(case: Case, golden: Path, roots: tuple[Path, ...], known: dict[str, str] | None = None) -> str:
    """12 hex digits of what is measured: the call, its inputs, the settings that shape them, and the code.

    `known` is the code of `golden` where it was just asked for.
    """
    measured = replace(
        case,
        operator="",
        case="" if case.mode == "A" else case.case,  # a factory builds what its case's name says
        family="",
        tier="",
        aliases=(),
        golden="",
        arguments=tuple(sorted(case.arguments, key=lambda argument: argument.name)),  # they are passed by name
        settings=measured_settings(case.settings),
    )
    facts: dict[str, object] = {"protocol": PROTOCOL, "case": measured, "code": known or code(golden, roots)}
    if case.source == "cann_bench":
        from scripts.sources import cann_tables

        facts["table"] = cann_tables.content(golden.parent, case.case)
    return _hash(facts)[:12]


def environment_digest(device: DeviceIdentity) -> str:
    """8 hex digits of what it is measured on: the device's model and the versions that drive it."""
    return _hash(
        {"kind": device.kind, "model": device.model, "stand_in": device.stand_in, "versions": device.versions}
    )[:8]


def key(case: str, device: DeviceIdentity) -> str:
    """The folder's name from a case digest and the device."""
    return f"{case}-{device.kind}-{environment_digest(device)}"


def digest_of(name: str) -> str:
    """The case digest in a folder's name."""
    return name.partition("-")[0]


def kind_of(name: str) -> str:
    """The device kind in a folder's name."""
    return name.split("-")[1]


def facts(device: DeviceIdentity) -> dict[str, str]:
    """What of a device and its versions counts, by the names in FACTS; kept beside the key to be compared and shown."""
    return {"model": device.model, **device.versions}


def code(golden: Path, roots: tuple[Path, ...]) -> dict[str, str]:
    """Digests of the golden and of each local module that it imports, by file: which of them changed."""
    # A golden from elsewhere has its own local modules beside it.
    return source_digest.by_file([golden], (*roots, golden.resolve().parent))


def measured_settings(settings: Settings) -> Settings:
    """`settings` with everything that cannot change a number set to its default."""
    default = Settings()
    return replace(
        settings,
        device=default.device,
        timeout_s=default.timeout_s,
        keep_inputs=default.keep_inputs,
        noise_mib=float(settings.noise_mib),  # 1 and 1.0 are one value, whoever made the case
    )


def _hash(facts: object) -> str:
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()
