"""Which rows of a capture are the golden's, iteration by iteration, and the rule that drops each of the others.

An iteration runs: restore copies, the noise kernel, synchronise, golden, synchronise, step. So rows are told apart by
where they stand, not by what they are: in a step (or, where the capture has no Step Id, between two noise kernels in
time) everything after the noise belongs to the golden, however much it looks like noise or like a copy. The noise is
known by its op type together with its input shape. Whatever does not fit this construction ends as `incomplete`: a
wrong number is worse than none.

Communication inside a golden stays its own but is counted apart, as the profiler's own statistics do: such a row lasts
as long as the slowest peer, and overlaps the kernels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from scripts.artifacts import Noise, ProfileRecord
from scripts.errors import CaseFailure
from scripts.kernel_table import KernelTable
from scripts.kernels import Kernel, kernel, multiset
from scripts.status import Status

RULES = ("golden", "noise", "restore", "before_noise", "outside_steps", "warm_up", "communication", "other_device")
GOLDEN, NOISE, RESTORE, BEFORE_NOISE, OUTSIDE, WARM_UP, COMMUNICATION, OTHER_DEVICE = range(len(RULES))

COMMUNICATION_CORES = ("COMMUNICATION", "HCCL")
COPY = re.compile(r"copy|memcpy|tensormove|clone", re.IGNORECASE)  # labels rows before the noise; drops nothing
HOST_CLOCK_KINDS = ("cpu", "cuda")  # kernels are stamped on the clock that `regions` are taken from
CLOCK_TOLERANCE_NS = 1_000  # some profilers round stamps to a microsecond

AGAIN = "Profile the case again; if it happens again, raise `warmup`, and look into the case's log for profiler errors."
NO_KERNELS_ADVICE = (
    "Look at Type and Duration(us) in the capture. Perhaps the golden only makes views, took a short cut (change "
    "_make_inputs() so that its core path runs), or ran on the CPU: check its tensors' device."
)


@dataclass(frozen=True)
class Attribution:
    """The rule and the iteration of every row of a table."""

    rule: np.ndarray  # int8, index into RULES
    iteration: np.ndarray  # int32, 0-based; -1 for rows of no iteration
    step_ids: tuple[int | None, ...]  # per iteration
    how: str  # sentence for the report
    warnings: list[str] = field(default_factory=list)

    def golden(self, iteration: int) -> np.ndarray:
        """Rows of the golden in one iteration, file order, communication apart."""
        return np.flatnonzero((self.rule == GOLDEN) & (self.iteration == iteration))


def attribute(table: KernelTable, profile: ProfileRecord) -> Attribution:
    """Assign every row of `table` to one of RULES.

    Raises CaseFailure: INCOMPLETE when the rows do not fit the construction (a step or its noise is missing, iterations
    differ, or it cannot be decided), NO_KERNELS when the golden launched none.
    """
    work = _Work(table, profile)
    if table.has_steps and table.step_id.known.any():
        _by_step(work)
    else:
        _by_order(work)
    _set_communication_apart(work)
    _check_clock(work)
    _check_iterations(work)
    return Attribution(work.rule, work.iteration, tuple(work.step_ids), work.how, work.warnings)


class _Work:
    """An attribution in the making."""

    def __init__(self, table: KernelTable, profile: ProfileRecord) -> None:
        self.table, self.profile = table, profile
        self.rule = np.full(len(table), OUTSIDE, np.int8)
        self.iteration = np.full(len(table), -1, np.int32)
        self.step_ids: list[int | None] = []
        self.how = ""
        self.warnings: list[str] = []
        self.mine = _one_device(table, profile)
        self.rule[~self.mine] = OTHER_DEVICE
        self.signature = _noise_signature(table, profile.noise, self.warnings) & self.mine
        self.copies = _copies(table)
        self.communication = table.core.where(lambda core: core.upper() in COMMUNICATION_CORES)

    @property
    def expects_noise(self) -> bool:
        """A foreign capture may have been made without noise: its profile.json names no types."""
        return bool(self.profile.noise.types)

    def before_noise(self, rows: np.ndarray) -> None:
        """Label rows that precede an iteration's noise."""
        restores = self.copies[rows] & bool(self.profile.restored)
        self.rule[rows] = np.where(restores, RESTORE, BEFORE_NOISE)

    def fail(self, message: str, advice: str = AGAIN) -> CaseFailure:
        return CaseFailure(Status.INCOMPLETE, f"{self.table.paths[0]}: {message}", advice)


def _one_device(table: KernelTable, profile: ProfileRecord) -> np.ndarray:
    """Mask of the rows of the case's own device."""
    devices = {table.device.values[code] for code in np.unique(table.device.codes) if code >= 0}
    if len(devices) < 2:
        return np.ones(len(table), bool)
    if profile.device.physical_id not in devices:
        raise CaseFailure(
            Status.INCOMPLETE,
            f"{table.paths[0]}: the capture has kernels of devices {', '.join(sorted(devices))}, and the golden ran "
            f"on none of them according to profile.json (physical_id {profile.device.physical_id!r}).",
            "Profile with one visible device (ASCEND_RT_VISIBLE_DEVICES), or name the device when importing.",
        )
    return table.device.where(lambda device: device == profile.device.physical_id) | ~table.device.known


def _noise_signature(table: KernelTable, noise: Noise, warnings: list[str]) -> np.ndarray:
    """Mask of rows that look like the noise: its op type and its first input shape.

    Where a level leaves the types or the shapes of such rows unknown, the kernel's name or the type alone has to do.
    """
    if not noise.types:
        return np.zeros(len(table), bool)
    types = table.op.where(lambda op: op in noise.types)
    if not table.op.known.any():
        types = table.name.where(lambda name: any(wanted in name for wanted in noise.types))
        if types.any():
            warnings.append("The capture has no op types: the noise was recognised by its kernel's name.")
    shapes = table.input_shapes.where(lambda text: first_shape(text) == noise.shape)
    if types.any() and not (types & table.input_shapes.known).any():
        warnings.append("The capture has no input shapes: the noise was recognised without its shape.")
        return types
    return types & shapes


def first_shape(text: str) -> tuple[int, ...] | None:
    """Shape of the first input in an Input Shapes cell: "96,1024,1024;3" -> (96, 1024, 1024)."""
    first = text.split(";", 1)[0].strip("[] ")
    try:
        return tuple(int(size) for size in first.split(",")) if first else ()
    except ValueError:
        return None


def _copies(table: KernelTable) -> np.ndarray:
    return table.op.where(lambda op: bool(COPY.search(op))) | table.name.where(lambda name: bool(COPY.search(name)))


# --- with Step Ids -----------------------------------------------------------------------------------------------


def _by_step(work: _Work) -> None:
    table = work.table
    steps = _expected_steps(work)
    work.step_ids = list(steps)
    iteration_of = {step: k for k, step in enumerate(steps)}
    by_code = np.array([*(iteration_of.get(step, -1) for step in table.step_id.values), -1], np.int32)
    iteration = np.where(work.mine, by_code[table.step_id.codes], -1)
    work.rule[work.mine & table.step_id.known & (iteration < 0)] = WARM_UP
    order = table.in_time
    rows_of = _grouped(order, iteration[order], len(steps))
    missing = [k for k, rows in enumerate(rows_of) if not len(rows)]
    if missing:
        raise work.fail(_missing_steps(work, steps, missing))
    for k, rows in enumerate(rows_of):
        work.iteration[rows] = k
        _split_step(work, k, rows)
    _check_strays(work)
    work.how = (
        "Rows were assigned by Step Id; in each step, rows up to and including the noise kernel "
        f"({_noise_words(work.profile.noise)}) were dropped, all later ones are the golden's."
        if work.expects_noise
        else "Rows were assigned by Step Id; the capture was made without noise: every row of a step is the golden's."
    )


def _expected_steps(work: _Work) -> list[int]:
    """Step Id of each iteration; a foreign capture's own ids, where its profile.json knows no regions."""
    profile = work.profile
    if profile.regions:
        return [region.step_id for region in sorted(profile.regions, key=lambda region: region.iteration)]
    steps = sorted(work.table.step_id.values)
    if profile.iterations and len(steps) != profile.iterations:
        raise work.fail(f"{profile.iterations} iterations are expected, and the Step Ids are {steps}.")
    return steps


def _grouped(order: np.ndarray, groups: np.ndarray, count: int) -> list[np.ndarray]:
    """`order` cut into one array per group 0…count-1, each keeping its order."""
    stable = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[stable], np.arange(count + 1))
    return [order[stable[a:b]] for a, b in pairwise(bounds)]


def _missing_steps(work: _Work, steps: list[int], missing: list[int]) -> str:
    found = sorted(set(work.table.step_id.values))
    return (
        f"{len(steps)} iterations are expected (Step Ids {_list(steps)}), and there are no rows of "
        f"{_list([steps[k] for k in missing])}; found are {_list(found)}. The capture is short of steps."
    )


def _split_step(work: _Work, k: int, rows: np.ndarray) -> None:
    """Everything after the step's first noise kernel is the golden's."""
    if not work.expects_noise:
        work.rule[rows] = GOLDEN
        return
    hits = np.flatnonzero(work.signature[rows])
    if not len(hits):
        raise work.fail(_no_noise(work, f"step {work.step_ids[k]} (iteration {k})", rows))
    first = int(hits[0])
    last = first + _further_noise(work, k, rows[first:])
    work.before_noise(rows[:first])
    work.rule[rows[first : last + 1]] = NOISE
    work.rule[rows[last + 1 :]] = GOLDEN


def _further_noise(work: _Work, k: int, rows: np.ndarray) -> int:
    """How many rows after the first, all of the noise's signature, started before the golden's region did.

    One `max` can take several device kernels; that they are the noise's is only known where the clock is the host's.
    """
    if not _has_host_clock(work.profile):
        return 0
    start = _region_start(work.profile, k)
    early = work.signature[rows] & (work.table.start_ns[rows] < start)
    return len(rows) - 1 if early.all() else max(0, int(np.argmin(early)) - 1)


def _no_noise(work: _Work, where: str, rows: np.ndarray) -> str:
    table = work.table
    same_shape = table.input_shapes.where(lambda text: first_shape(text) == work.profile.noise.shape)
    alike = sorted({str(table.op[row] or table.name[row]) for row in rows if same_shape[row]})
    hint = f"rows with its shape are of type {_list(alike)}" if alike else "no row there has its shape"
    return (
        f"the noise kernel ({_noise_words(work.profile.noise)}) of {where} is not in the capture: {hint}. Either the "
        "head of the window was lost, or the device gives the noise another type."
    )


def _check_strays(work: _Work) -> None:
    """A row of no measured step that ran between the first noise and the last golden row contradicts the Step Ids."""
    table = work.table
    measured = np.flatnonzero(np.isin(work.rule, (NOISE, GOLDEN)))
    stray = np.flatnonzero(np.isin(work.rule, (OUTSIDE, WARM_UP)))
    if not len(stray) or not len(measured):
        return
    measured = measured[np.argsort(table.start_ns[measured], kind="stable")]
    place = np.searchsorted(table.start_ns[measured], table.start_ns[stray], side="right")
    inside = (place > 0) & (place < len(measured))
    following = measured[np.minimum(place, len(measured) - 1)]
    # before a noise kernel a copy may be a restore; anything else there is the tail of the golden before it
    harmless = (work.rule[following] == NOISE) & work.copies[stray] & bool(work.profile.restored)
    for row in stray[inside & ~harmless]:
        raise work.fail(
            f"{table.where(row)}: {kernel(table, row)} has Step Id {table.step_id[row]}, which is none of the measured "
            "steps, yet it ran in the middle of them. The Step Ids cannot be trusted."
        )
    late = stray[place == len(measured)]
    if len(late):
        work.warnings.append(
            f"{len(late)} rows of no measured step ran after the last iteration ({table.where(late[0])})."
        )


# --- without Step Ids --------------------------------------------------------------------------------------------


def _by_order(work: _Work) -> None:
    """By time and the noise's signature: N iterations whose golden has m lookalikes leave N (1 + m) such rows."""
    profile = work.profile
    n = len(profile.regions) or profile.iterations
    rows = work.table.in_time[work.mine[work.table.in_time]]
    work.step_ids = [None] * n
    if not work.expects_noise:
        _by_repetition(work, rows, n)
        return
    places = np.flatnonzero(work.signature[rows])
    if not len(places):
        raise work.fail(_no_noise(work, "every iteration", rows))
    if n == 0 or len(places) % n:
        raise work.fail(
            f"there is no Step Id column, and {len(places)} rows look like the noise ({_noise_words(profile.noise)}), "
            f"no multiple of the {n} iterations: which of them open an iteration cannot be decided."
        )
    noises = places[:: len(places) // n]
    work.before_noise(rows[: noises[0]])
    _check_head(work, rows[: noises[0]], n)
    for k, segment in enumerate(np.split(rows, noises)[1:]):
        work.iteration[segment] = k
        work.rule[segment[0]] = NOISE
        work.rule[segment[1:]] = GOLDEN
    _split_off_restores(work, rows, noises)
    work.how = (
        f"The capture has no Step Ids: rows were assigned in order of time, {n} iterations opened by the noise kernel "
        f"({_noise_words(profile.noise)})."
    )
    work.warnings.append("The capture has no Step Ids: iterations were told apart by order and the noise kernel.")


def _check_head(work: _Work, head: np.ndarray, n: int) -> None:
    """With one iteration nothing else tells a leaked warm-up, or a lost noise, from a whole window."""
    strange = head[work.rule[head] == BEFORE_NOISE]
    if n == 1 and len(strange):
        raise work.fail(
            f"there is no Step Id column, and before the only noise kernel ran {kernel(work.table, strange[0])} "
            f"({work.table.where(strange[0])}): whether the window's head was lost cannot be decided.",
            "Profile with more iterations, or so that Step Ids are recorded (CPU and NPU activities, a schedule).",
        )


def _split_off_restores(work: _Work, rows: np.ndarray, noises: np.ndarray) -> None:
    """Between two noises lie a golden and the next iteration's restores; the last segment is a golden alone."""
    ends = [*noises[1:], len(rows)]
    length = ends[-1] - noises[-1]
    tails = [rows[start + length : end] for start, end in zip(noises[:-1], ends[:-1], strict=True)]
    if not any(len(tail) for tail in tails):
        return
    head = rows[: noises[0]]
    for k, tail in enumerate(tails):
        restores = head[len(head) - len(tail) :] if len(tail) else head[:0]
        explained = bool(work.profile.restored) and work.copies[tail].all()
        if not explained or multiset(work.table, restores) != multiset(work.table, tail):
            raise work.fail(
                f"there is no Step Id column, and iteration {k} has {len(tail)} rows more than the last one "
                f"({_names(work.table, tail)}), which are not the restore copies that preceded the first noise kernel."
            )
        work.rule[tail] = RESTORE
        work.iteration[tail] = k + 1


def _by_repetition(work: _Work, rows: np.ndarray, n: int) -> None:
    """A foreign capture without noise and Step Ids: the rows must be one sequence of kernels, n times over."""
    if n == 0 or not len(rows) or len(rows) % n:
        raise work.fail(
            f"there are no Step Ids and no noise, and {len(rows)} rows do not divide into {n} equal iterations.",
            "Import the capture with the number of its iterations, or profile with Step Ids.",
        )
    parts = rows.reshape(n, -1)
    first = [kernel(work.table, row) for row in parts[0]]
    for k, part in enumerate(parts):
        if [kernel(work.table, row) for row in part] != first:
            raise work.fail(
                f"there are no Step Ids and no noise, and iteration {k} is not the sequence of iteration 0."
            )
        work.iteration[part], work.rule[part] = k, GOLDEN
    work.how = f"The capture has neither Step Ids nor noise: its rows are one sequence of kernels, {n} times over."


# --- checks ------------------------------------------------------------------------------------------------------


def _set_communication_apart(work: _Work) -> None:
    rows = (work.rule == GOLDEN) & work.communication
    if rows.any():
        work.rule[rows] = COMMUNICATION
        total = work.table.total_us(rows)
        work.warnings.append(
            f"{int(rows.sum())} communication rows ({total} us) ran within the golden; they are listed, not in the E2E."
        )


def _has_host_clock(profile: ProfileRecord) -> bool:
    return profile.device.kind in HOST_CLOCK_KINDS and any(region.start_ns for region in profile.regions)


def _region_start(profile: ProfileRecord, k: int) -> int:
    return next(region.start_ns for region in profile.regions if region.iteration == k)


def _check_clock(work: _Work) -> None:
    """Where kernels and regions share a clock, every row must start where its attribution says."""
    profile, table = work.profile, work.table
    if not _has_host_clock(profile):
        return
    regions = sorted(profile.regions, key=lambda region: region.start_ns)
    starts = np.array([region.start_ns for region in regions])
    ends = np.array([region.end_ns for region in regions])
    owners = np.array([region.iteration for region in regions])
    at = table.start_ns
    golden = np.isin(work.rule, (GOLDEN, COMMUNICATION))
    wide = _region_of(at, starts - CLOCK_TOLERANCE_NS, ends + CLOCK_TOLERANCE_NS, owners)
    narrow = _region_of(at, starts + CLOCK_TOLERANCE_NS, ends - CLOCK_TOLERANCE_NS, owners)
    wrong = np.flatnonzero(np.where(golden, wide != work.iteration, (narrow >= 0) & work.mine))
    for row in wrong:
        said = RULES[work.rule[row]] + (f" of iteration {work.iteration[row]}" if work.iteration[row] >= 0 else "")
        seen = f"inside the region of iteration {narrow[row]}" if narrow[row] >= 0 else "outside the golden's region"
        raise work.fail(
            f"{table.where(row)}: {kernel(table, row)} was taken for {said}, but it started {seen} by the host's clock "
            f"({len(wrong)} such rows)."
        )


def _region_of(at: np.ndarray, starts: np.ndarray, ends: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Iteration in whose region each time lies, -1 for none; regions are in order and do not overlap."""
    index = np.searchsorted(starts, at, side="right") - 1
    return np.where((index >= 0) & (at <= ends[index]), owners[index], -1)


def _check_iterations(work: _Work) -> None:
    """Every iteration must show the same kernels, and at least one."""
    seen = [multiset(work.table, rows) for rows in _golden_rows(work)]
    if not any(seen):
        apart = " (communication only)" if (work.rule == COMMUNICATION).any() else ""
        raise CaseFailure(
            Status.NO_KERNELS,
            f"{work.table.paths[0]}: none of the {len(work.table)} rows is a kernel of the golden{apart}: "
            f"{_rule_counts(work)}.",
            NO_KERNELS_ADVICE,
        )
    usual = Counter(frozenset(kernels.items()) for kernels in seen).most_common(1)[0][0]
    different = [k for k, kernels in enumerate(seen) if frozenset(kernels.items()) != usual]
    if different:
        lines = [_difference(k, seen[k], Counter(dict(usual))) for k in different[:3]]
        more = f" and {len(different) - 3} more iterations" if len(different) > 3 else ""
        raise work.fail(
            f"the iterations do not show the same kernels. Against most iterations, {'; '.join(lines)}{more}.",
            "Kernels were lost by the profiler, or the golden does not do the same each time (caches, state, "
            f"data-dependent branches). {AGAIN}",
        )


def _golden_rows(work: _Work) -> Iterator[np.ndarray]:
    rows = np.flatnonzero(work.rule == GOLDEN)
    yield from _grouped(rows, work.iteration[rows], len(work.step_ids))


def _difference(k: int, kernels: Counter[Kernel], usual: Counter[Kernel]) -> str:
    parts = [f"lacks {count} x {name}" for name, count in (usual - kernels).items()]
    parts += [f"has {count} x {name} more" for name, count in (kernels - usual).items()]
    shown = ", ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
    return f"iteration {k} {shown}"


def _rule_counts(work: _Work) -> str:
    counts = np.bincount(work.rule, minlength=len(RULES))
    return (
        ", ".join(f"{count} {rule}" for rule, count in zip(RULES, counts, strict=True) if count) or "there are no rows"
    )


def _names(table: KernelTable, rows: np.ndarray) -> str:
    return _list(sorted({str(table.op[row] or table.name[row]) for row in rows}))


def _noise_words(noise: Noise) -> str:
    return f"{' or '.join(noise.types)} of {','.join(map(str, noise.shape))}"


def _list(items: list) -> str:
    shown = ", ".join(map(str, items[:12]))
    return shown + (f" and {len(items) - 12} more" if len(items) > 12 else "") if items else "none"
