"""Two results of one case: what differs in identity, then the times, then the kernels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from scripts import artifacts, result_identity, speedup
from scripts.aa_record import AaRecord
from scripts.artifacts import KernelRow, PerfRecord
from scripts.errors import ConfigError
from scripts.parse_csv import WIDE_SPREAD
from scripts.result_identity import Difference
from scripts.speedup import Comparison, Verdict

OF_AA = "what the A/A test of this case needs between two runs to stay quiet"
Signature = tuple[str, str, str, str]  # op, name, core, input shapes


@dataclass(frozen=True)
class Result:
    """One perf.json and where it lies."""

    path: Path
    perf: PerfRecord

    @property
    def id(self) -> str:
        """`<operator>/<case>`."""
        return f"{self.perf.profile.operator}/{self.perf.profile.case}"


@dataclass(frozen=True)
class KernelChange:
    """One kernel that differs between two results, per iteration; 0 where it does not occur."""

    kernel: str
    first_count: int
    second_count: int
    first_us: Decimal  # count × median of one launch
    second_us: Decimal


@dataclass(frozen=True)
class Pair:
    """One case in two results."""

    first: Result
    second: Result
    identity: list[Difference]
    surroundings: list[Difference]
    times: Comparison  # of the device totals
    gate: float  # the practical gate that was used
    gate_reason: str
    kernels: list[KernelChange]


def find(place: Path) -> list[Result]:
    """The results at `place`: a perf.json, or a folder with some below it; of several keys of a case the newest.

    Raises ConfigError when there is none.
    """
    paths = [place] if place.is_file() else sorted(place.rglob("perf.json")) if place.is_dir() else []
    if not paths:
        what = "holds no perf.json" if place.is_dir() else "does not exist"
        raise ConfigError(f"{place} {what}. Give a perf.json, the folder of a case, or a whole prof/ folder.")
    newest: dict[str, Result] = {}
    for path in paths:
        result = Result(path, artifacts.read(path, PerfRecord))
        known = newest.get(result.id)
        newest[result.id] = result if known is None else max(known, result, key=_begun)
    return list(newest.values())


def _begun(result: Result) -> datetime:
    return datetime.fromisoformat(result.perf.profile.started_at)


def pair_up(
    first: Sequence[Result], second: Sequence[Result], current: dict[str, str]
) -> tuple[list[tuple[Result, Result]], list[str]]:
    """The cases that both sides have, and the ids of those that one side has alone.

    `current` says what a former id is called now; of results under both names the newest counts. Two single results
    are a pair whatever they are called.
    """
    if len(first) == len(second) == 1:
        return [(first[0], second[0])], []
    ours, theirs = ({current.get(one.id, one.id): one for one in sorted(side, key=_begun)} for side in (first, second))
    alone = sorted(ours.keys() ^ theirs.keys())
    return [(ours[name], theirs[name]) for name in ours if name in theirs], alone


def compare(
    pairs: Sequence[tuple[Result, Result]],
    across: Collection[str],
    practical: float,
    current: dict[str, str],
) -> list[Pair]:
    """Compare every pair; raises ConfigError for one of unequal identity that `across` does not cover."""
    compared = [_compare(a, b, across, practical, current) for a, b in pairs]
    verdicts = speedup.together([pair.times for pair in compared])
    return [replace(pair, times=verdict) for pair, verdict in zip(compared, verdicts, strict=True)]


def _compare(first: Result, second: Result, across: Collection[str], practical: float, current: dict[str, str]) -> Pair:
    renamed = current.get(first.id, first.id) == current.get(second.id, second.id)
    identity = result_identity.differences(first.perf, second.perf, same_case=renamed)
    result_identity.require_comparable(identity, across, second.id)
    gate, reason, doubt = _gate(first, second)
    times = speedup.judge(_totals(first), _totals(second), paired=False, practical=max(practical, gate))
    if doubt:
        times = _withheld(times, doubt)
    elif times.verdict is Verdict.SAME and gate > practical:
        times = _withheld(
            times, f"two runs of the same thing differ by up to {100 * gate:g} % here: less cannot be told"
        )
    return Pair(
        first,
        second,
        identity,
        result_identity.surroundings(first.perf, second.perf),
        times,
        max(practical, gate),
        reason,
        kernel_changes(first.perf, second.perf),
    )


def _totals(result: Result) -> list[Decimal]:
    return [total.device_total_us for total in result.perf.iterations]


def _gate(first: Result, second: Result) -> tuple[float, str, str]:
    """The gate that two runs need by the case's A/A test, 0 without one; a note; and why no verdict is given, or "".

    Two runs differ by more than the iterations within each show.
    """
    found = [
        artifacts.read(path, AaRecord)
        for path in (result.path.with_name("aa.json") for result in (first, second))
        if path.exists()
    ]
    gates = [record.gate_between_runs for record in found]
    gate = max((known for known in gates if known is not None), default=0.0)
    if None in gates:
        return gate, OF_AA, "the case's A/A test found no gate that stays quiet on this machine"
    iterations = max(len(first.perf.iterations), len(second.perf.iterations))
    lacks = next(filter(None, (record.lacks(iterations) for record in found)), "")
    if found and not lacks:
        return gate, OF_AA, ""
    widest = max(first.perf.device_total.relative_iqr, second.perf.device_total.relative_iqr)
    unknown = f"the A/A test of this case is too small: {lacks}" if found else "no A/A test of this case is at hand"
    note = (
        f"{unknown}; the interval knows the spread within each run, not from run to run (`goldenprof aa` measures it)"
    )
    doubt = (
        f"a run spreads by {100 * widest:.0f} %, more than {100 * WIDE_SPREAD:.0f} %, and how much runs differ is not "
        "known (`goldenprof aa` measures it)"
    )
    return gate, note, doubt if widest > WIDE_SPREAD else ""


def _withheld(times: Comparison, doubt: str) -> Comparison:
    """No verdict on runs of which it is not known how much they differ."""
    if times.verdict is Verdict.UNDECIDED:
        return times
    reason = f"it would be {times.verdict} ({times.reason}), but {doubt}"
    return replace(times, verdict=Verdict.UNDECIDED, reason=reason)


def kernel_changes(first: PerfRecord, second: PerfRecord) -> list[KernelChange]:
    """The kernels whose count or time differs, largest change first."""
    ours, theirs = _kernels(first.kernels), _kernels(second.kernels)
    changes = []
    for signature in dict.fromkeys([*ours, *theirs]):
        (count, us), (other_count, other_us) = ours.get(signature, _NONE), theirs.get(signature, _NONE)
        if (count, us) != (other_count, other_us):
            changes.append(KernelChange(_label(signature), count, other_count, us, other_us))
    return sorted(changes, key=lambda change: (-abs(change.second_us - change.first_us), change.kernel))


_NONE = (0, Decimal(0))


def _kernels(rows: Sequence[KernelRow]) -> dict[Signature, tuple[int, Decimal]]:
    found: dict[Signature, tuple[int, Decimal]] = {}
    for row in rows:
        signature = (row.op, row.name, row.core, row.input_shapes)
        count, us = found.get(signature, _NONE)
        found[signature] = (count + row.count, us + row.count * row.median_us)
    return found


def _label(signature: Signature) -> str:
    op, name, core, input_shapes = signature
    return f"{op}" + (f" ({name})" if name != op else "") + f" on {core}, {input_shapes or 'shapes unknown'}"
