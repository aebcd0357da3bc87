"""What makes two results of a case comparable, facet by facet, and what differs between two of them.

Only results that agree in every facet are compared silently. `across` names those that may differ: the question "is
the new version slower" differs in `versions`, and nothing else may.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from scripts import key
from scripts.artifacts import PerfRecord
from scripts.errors import ConfigError

FACETS = {
    "case": "operator and case, renames followed by their aliases",
    "inputs": "names, shapes, dtypes and content hashes of the tensors, and the other values of the call",
    "scope": "which kernels are summed",
    "cache": "cold or warm, and how much is flushed",
    "settings": "iterations, warm-up calls and seed",
    "device": "kind and model",
    "versions": "torch, its backend, toolkit and driver, Python",
    "code": "the golden, its factory and what they import; told apart where inputs, cache and settings agree",
}
ABSENT = "–"


@dataclass(frozen=True)
class Difference:
    """One fact in which two results differ."""

    facet: str
    fact: str
    first: str
    second: str


def differences(first: PerfRecord, second: PerfRecord, same_case: bool | None = None) -> list[Difference]:
    """Every fact of identity in which two results differ, facet by facet.

    `same_case` overrides the comparison of names: True where an alias says that both are one case.
    """
    ours, theirs = _facts(first), _facts(second)
    found = [
        Difference(facet, fact, ours.get((facet, fact), ABSENT), theirs.get((facet, fact), ABSENT))
        for facet, fact in dict.fromkeys([*ours, *theirs])
        if ours.get((facet, fact)) != theirs.get((facet, fact)) and not (facet == "case" and same_case)
    ]
    return [*found, *_code(first, second, {difference.facet for difference in found})]


def require_comparable(found: Collection[Difference], across: Collection[str], what: str) -> None:
    """Raise ConfigError naming every difference outside of the facets in `across`."""
    unknown = [facet for facet in across if facet not in FACETS]
    if unknown:
        allowed = "; ".join(f"{facet} ({meaning})" for facet, meaning in FACETS.items())
        raise ConfigError(f"--across knows no {', '.join(unknown)}. Allowed, with commas: {allowed}.")
    refused = [difference for difference in found if difference.facet not in across]
    if refused:
        listed = "; ".join(f"{one.facet}: {one.fact} is {one.first} against {one.second}" for one in refused[:6])
        more = f"; and {len(refused) - 6} more" if len(refused) > 6 else ""
        facets = ",".join(dict.fromkeys([*across, *(one.facet for one in refused)]))
        raise ConfigError(
            f"The two results of {what} are not of one identity: {listed}{more}. "
            f"Say `--across {facets}` to compare them nevertheless."
        )


def surroundings(first: PerfRecord, second: PerfRecord) -> list[Difference]:
    """What else differs and may explain a change, but is no part of identity: host, load, threads, profiler level."""
    ours, theirs = first.profile.environment, second.profile.environment
    pairs = [(fact, ours.get(fact, ABSENT), theirs.get(fact, ABSENT)) for fact in dict.fromkeys([*ours, *theirs])]
    pairs += [
        ("measured at", first.profile.started_at, second.profile.started_at),
        ("read from", first.output.source_kind, second.output.source_kind),
        ("physical device", first.profile.device.physical_id, second.profile.device.physical_id),
    ]
    return [Difference("surroundings", fact, a, b) for fact, a, b in pairs if a != b]


def _facts(perf: PerfRecord) -> dict[tuple[str, str], str]:
    profile = perf.profile
    facts = {
        ("case", "operator"): profile.operator,
        ("case", "case"): profile.case,
        ("scope", "kernels"): "after the noise of each step" if profile.noise.types else "all of each step",
        ("cache", "cache"): profile.cache,
        ("cache", "noise"): f"{profile.noise.mib:g} MiB",
        ("settings", "iterations"): str(profile.iterations),
        ("settings", "warm-up"): str(profile.warmup),
        ("settings", "seed"): str(profile.settings.get("seed", ABSENT)),
        ("device", "kind"): profile.device.kind,
        ("device", "model"): profile.device.model,
        ("device", "stand-in"): str(profile.device.stand_in),
    }
    for tensor in profile.inputs:
        facts["inputs", tensor.name] = f"{tensor.dtype}{list(tensor.shape)} {tensor.sha256[:12]}".rstrip()
    facts.update({("inputs", name): repr(value) for name, value in profile.scalars.items()})
    facts.update({("versions", name): version for name, version in profile.versions.items()})
    return facts


def _code(first: PerfRecord, second: PerfRecord, facets: set[str]) -> list[Difference]:
    """The keys' first part digests code, inputs and settings: it tells the code apart where the others agree."""
    ours, theirs = (key.digest_of(perf.profile.key) for perf in (first, second))
    if ours == theirs or facets & {"inputs", "cache", "settings"}:
        return []
    return [Difference("code", "digest", ours, theirs)]
