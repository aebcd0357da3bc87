"""Assigning rows by Step Id: in each step, all that follows the noise is the golden's."""

from __future__ import annotations

import numpy as np

from scripts.assignment import GOLDEN, NOISE, OUTSIDE_STEPS, WARM_UP, Assignment, grouped, listed


def assign(work: Assignment) -> None:
    """Fill in `work` from the Step Id column.

    Raises CaseFailure(INCOMPLETE): a step or its noise is missing, or rows without a measured step ran inside one.
    """
    table = work.table
    steps = _expected_steps(work)
    work.step_ids = list(steps)
    iteration_of = {step: k for k, step in enumerate(steps)}
    # the last entry serves code -1, a blank Step Id
    by_code = np.array([*(iteration_of.get(step, -1) for step in table.step_id.values), -1], np.int32)
    iteration = np.where(work.mine, by_code[table.step_id.codes], -1)
    work.rule[work.mine & table.step_id.known & (iteration < 0)] = WARM_UP
    rows_of = grouped(table.in_time, iteration[table.in_time], len(steps))
    _check_present(work, steps, rows_of)
    for k, rows in enumerate(rows_of):
        work.iteration[rows] = k
        _split(work, k, rows)
    _check_strays(work)
    work.how = (
        f"Rows were assigned by Step Id; in each step, rows up to and including the noise kernel ({work.noise}) were "
        "dropped, all later ones are the golden's."
        if work.expects_noise
        else "Rows were assigned by Step Id; the capture was made without noise: every row of a step is the golden's."
    )


def _expected_steps(work: Assignment) -> list[int]:
    """Step Id of each iteration; a foreign capture's own ids where its profile.json knows no regions."""
    profile = work.profile
    if profile.regions:
        steps = [region.step_id for region in sorted(profile.regions, key=lambda region: region.iteration)]
    else:
        steps = sorted({work.table.step_id.values[c] for c in np.unique(work.table.step_id.codes[work.mine]) if c >= 0})
    if profile.iterations and len(steps) != profile.iterations:
        source = "regions of profile.json" if profile.regions else "Step Ids of the capture"
        raise work.failure(f"{profile.iterations} iterations are expected, and the {source} are {listed(steps)}.")
    return steps


def _check_present(work: Assignment, steps: list[int], rows_of: list[np.ndarray]) -> None:
    missing = [step for step, rows in zip(steps, rows_of, strict=True) if not len(rows)]
    if missing:
        raise work.failure(
            f"Step Ids {listed(steps)} are expected, and there are no rows of {listed(missing)}; "
            f"found are {listed(sorted(work.table.step_id.values))}. The capture is short of steps."
        )


def _split(work: Assignment, k: int, rows: np.ndarray) -> None:
    """Everything after the first noise kernel of step `k` is the golden's."""
    if not work.expects_noise:
        work.rule[rows] = GOLDEN
        return
    hits = np.flatnonzero(work.signature[rows])
    if not len(hits):
        raise work.missing_noise(f"step {work.step_ids[k]} (iteration {k})", rows)
    first = int(hits[0])
    after = first + 1 + _rest_of_noise(work, k, rows[first + 1 :])
    work.before_noise(rows[:first])
    work.rule[rows[first:after]] = NOISE
    work.rule[rows[after:]] = GOLDEN


def _rest_of_noise(work: Assignment, k: int, rows: np.ndarray) -> int:
    """How many of `rows`, which follow the noise's first, started before the golden's region did.

    One `max` can take several kernels (a fill inside it, a second pass); that they are the noise's is only known where
    the clock is the host's.
    """
    region = next((region for region in work.regions if region.iteration == k), None)
    if region is None:
        return 0
    return int(np.searchsorted(work.table.start_ns[rows], region.start_ns, side="left"))


def _check_strays(work: Assignment) -> None:
    """A row of no measured step that ran between the first noise and the last golden row contradicts the Step Ids."""
    start = work.table.start_ns
    measured = np.flatnonzero(np.isin(work.rule, (NOISE, GOLDEN)))
    measured = measured[np.argsort(start[measured], kind="stable")]
    stray = np.flatnonzero(np.isin(work.rule, (OUTSIDE_STEPS, WARM_UP)))
    if not len(stray) or not len(measured):
        return
    place = np.searchsorted(start[measured], start[stray], side="right")
    inside = (place > 0) & (place < len(measured))
    following = measured[np.minimum(place, len(measured) - 1)]
    # before a noise kernel a copy may be a restore; anything else there is the tail of the golden before it
    harmless = (work.rule[following] == NOISE) & work.copies[stray] & bool(work.profile.restored)
    wrong = stray[inside & ~harmless]
    if len(wrong):
        step = work.table.step_id[wrong[0]]
        raise work.failure(
            f"a row of no measured step (Step Id {'blank' if step is None else step}) ran in the middle of them: "
            f"{work.describe(wrong[0])} ({len(wrong)} such rows). The Step Ids cannot be trusted."
        )
    late = stray[place == len(measured)]
    if len(late):
        work.warnings.append(f"{len(late)} rows of no measured step ran after the last one: {work.describe(late[0])}.")
