"""Which rows of a capture are the golden's, iteration by iteration, and the rule that drops each of the others.

An iteration runs: restore copies, the noise kernel, synchronise, golden, synchronise, step. So rows are told apart by
where they stand, not by what they are: within a step (`by_step`), or between two noise kernels in time where the
capture has no Step Ids (`by_order`), everything after the noise belongs to the golden, however much it looks like noise
or like a copy. Whatever does not fit this construction ends as `incomplete`: a wrong number is worse than none.

Communication inside a golden stays its own but is counted apart, as the profiler's own statistics do: such a row lasts
as long as the slowest peer, and overlaps the kernels.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from scripts import by_order, by_step
from scripts.artifacts import ProfileRecord
from scripts.assignment import AGAIN, COMMUNICATION, GOLDEN, RULES, Assignment, grouped, is_communication
from scripts.errors import CaseFailure
from scripts.kernel_table import KernelTable
from scripts.kernels import Kernels
from scripts.status import Status

__all__ = ["GOLDEN", "NO_KERNELS_ADVICE", "RULES", "Attribution", "attribute"]

CLOCK_TOLERANCE_NS = 1_000  # some profilers round stamps to a microsecond

NO_KERNELS_ADVICE = (
    "Look at Type and Duration(us) in the capture. Perhaps the golden only makes views, took a short cut (change "
    "_make_inputs() so that its core path runs), or ran on the CPU: check its tensors' device."
)


@dataclass(frozen=True)
class Attribution:
    """The rule and the iteration of every row of a table."""

    rule: np.ndarray  # int8, index into RULES
    iteration: np.ndarray  # int32, 0-based; -1 for rows of no iteration
    kernels: Kernels
    step_ids: tuple[int | None, ...]  # per iteration
    how: str  # sentence for the report
    warnings: tuple[str, ...]


def attribute(table: KernelTable, profile: ProfileRecord) -> Attribution:
    """Assign every row of `table` to one of RULES.

    Raises CaseFailure: INCOMPLETE when the rows do not fit the construction (a step or its noise is missing, iterations
    differ, or it cannot be decided), NO_KERNELS when the golden launched none.
    """
    work = Assignment(table, profile)
    (by_step if table.step_id.known.any() else by_order).assign(work)
    _check_clock(work)
    _set_communication_apart(work)
    _check_iterations(work)
    return Attribution(work.rule, work.iteration, work.kernels, tuple(work.step_ids), work.how, tuple(work.warnings))


def _set_communication_apart(work: Assignment) -> None:
    rows = (work.rule == GOLDEN) & work.table.core.where(is_communication)
    if rows.any():
        work.rule[rows] = COMMUNICATION
        total = work.table.total_us(rows)
        work.warnings.append(
            f"{int(rows.sum())} communication rows ({total} us) ran within the golden; they are listed, not in the E2E."
        )


def _check_clock(work: Assignment) -> None:
    """Where kernels and regions share a clock, every row must start where its attribution says."""
    regions = sorted(work.regions, key=lambda region: region.start_ns)
    if not regions:
        return
    starts = np.array([region.start_ns for region in regions])
    ends = np.array([region.end_ns for region in regions])
    owners = np.array([region.iteration for region in regions])
    at, golden = work.table.start_ns, work.rule == GOLDEN
    widest = _region_of(at, starts - CLOCK_TOLERANCE_NS, ends + CLOCK_TOLERANCE_NS, owners)
    narrowest = _region_of(at, starts + CLOCK_TOLERANCE_NS, ends - CLOCK_TOLERANCE_NS, owners)
    wrong = np.flatnonzero(np.where(golden, widest != work.iteration, (narrowest >= 0) & work.mine))
    if len(wrong):
        row = wrong[0]
        taken = RULES[work.rule[row]] + (f" of iteration {work.iteration[row]}" if golden[row] else "")
        region = narrowest[row]
        seen = f"inside the golden's region of iteration {region}" if region >= 0 else "outside the golden's regions"
        raise work.failure(
            f"a row was taken for {taken}, but started {seen} by the host's clock: {work.describe(row)} "
            f"({len(wrong)} such rows)."
        )


def _region_of(at: np.ndarray, starts: np.ndarray, ends: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Iteration in whose region each time lies, -1 for none; regions are in order and do not overlap."""
    index = np.searchsorted(starts, at, side="right") - 1
    return np.where((index >= 0) & (at <= ends[index]), owners[index], -1)


def _check_iterations(work: Assignment) -> None:
    """Every iteration must show the same kernels, and at least one."""
    rows = np.flatnonzero(work.rule == GOLDEN)
    if not len(rows):
        counts = np.bincount(work.rule, minlength=len(RULES))
        found = ", ".join(f"{count} {rule}" for rule, count in zip(RULES, counts, strict=True) if count)
        raise CaseFailure(
            Status.NO_KERNELS,
            f"{work.table.paths[0]}: none of the {len(work.table)} rows is a kernel of the golden ({found}).",
            NO_KERNELS_ADVICE,
        )
    seen = [work.kernels.count(own) for own in grouped(rows, work.iteration[rows], len(work.step_ids))]
    usual = Counter(frozenset(counts.items()) for counts in seen).most_common(1)[0][0]
    different = [k for k, counts in enumerate(seen) if frozenset(counts.items()) != usual]
    if different:
        lines = [_difference(work.kernels, k, seen[k], Counter(dict(usual))) for k in different[:3]]
        more = f"; and {len(different) - 3} more iterations differ" if len(different) > 3 else ""
        raise work.failure(
            f"the iterations do not show the same kernels. Against {len(seen) - len(different)} of {len(seen)}, "
            f"{'; '.join(lines)}{more}.",
            "Kernels were lost by the profiler, or the golden does not do the same each time (caches, state, "
            f"data-dependent branches). {AGAIN}",
        )


def _difference(kernels: Kernels, k: int, counts: Counter[int], usual: Counter[int]) -> str:
    parts = [f"lacks {count} x {kernels.kinds[code]}" for code, count in (usual - counts).items()]
    parts += [f"has {count} x {kernels.kinds[code]} more" for code, count in (counts - usual).items()]
    shown = ", ".join(parts[:3]) + (f" and {len(parts) - 3} more" if len(parts) > 3 else "")
    return f"iteration {k} {shown}"
