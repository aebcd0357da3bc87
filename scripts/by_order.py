"""Assigning rows where the capture has no Step Ids: by time and the noise kernel.

N iterations whose golden launches m kernels that look like the noise leave N (1 + m) such rows, and every (1 + m)-th of
them opens an iteration. Between two openings lie a golden and the next iteration's restores; the last segment is a
golden alone, and shows where the golden ends in the others.
"""

from __future__ import annotations

import numpy as np

from scripts.assignment import BEFORE_NOISE, GOLDEN, NOISE, RESTORE, Assignment, listed

WITH_STEPS = "Profile with more iterations, or so that Step Ids are recorded (CPU and NPU activities, a schedule)."


def assign(work: Assignment) -> None:
    """Fill in `work` from the order of rows.

    Raises CaseFailure(INCOMPLETE) when it cannot be decided which rows open an iteration, or where a golden ends.
    """
    count = len(work.profile.regions) or work.profile.iterations
    rows = work.table.in_time[work.mine[work.table.in_time]]
    work.step_ids = [None] * count
    if not work.expects_noise:
        _by_repetition(work, rows, count)
        return
    openings = _openings(work, rows, count)
    head = rows[: openings[0]]
    work.before_noise(head)
    _check_head(work, head, count)
    for k, segment in enumerate(np.split(rows, openings)[1:]):
        work.iteration[segment] = k
        work.rule[segment[0]] = NOISE
        work.rule[segment[1:]] = GOLDEN
    _split_off_restores(work, rows, openings)
    work.how = (
        f"The capture has no Step Ids: rows were assigned in order of time, {count} iterations opened by the noise "
        f"kernel ({work.noise})."
    )
    work.warnings.append("The capture has no Step Ids: iterations were told apart by order and the noise kernel.")


def _openings(work: Assignment, rows: np.ndarray, count: int) -> np.ndarray:
    """Places in `rows` of the noise kernel that opens each iteration."""
    places = np.flatnonzero(work.signature[rows])
    if not len(places):
        raise work.missing_noise("every iteration", rows)
    if not count or len(places) % count:
        raise work.failure(
            f"there are no Step Ids, and {len(places)} rows look like the noise ({work.noise}), no multiple of the "
            f"{count} iterations: which of them open an iteration cannot be decided.",
            WITH_STEPS,
        )
    alike = len(places) // count - 1
    if alike:
        work.warnings.append(
            f"The golden launches {alike} kernels per iteration that look like the noise; without Step Ids only order "
            "tells them apart."
        )
    return places[:: alike + 1]


def _check_head(work: Assignment, head: np.ndarray, count: int) -> None:
    """With one iteration nothing else tells a leaked warm-up, or a lost noise, from a whole window."""
    strange = head[work.rule[head] == BEFORE_NOISE]
    if count == 1 and len(strange):
        raise work.failure(
            f"there are no Step Ids, and before the only noise kernel ran {work.describe(strange[0])}: whether the "
            "head of the window was lost cannot be decided.",
            WITH_STEPS,
        )


def _split_off_restores(work: Assignment, rows: np.ndarray, openings: np.ndarray) -> None:
    """Give what follows the golden in every segment but the last to the next iteration, as its restores.

    They must be the same copies that preceded the first noise kernel; else kernels were lost at the end.
    """
    if not work.profile.restored:
        return  # what is left over is a difference between iterations, and reported as such
    ends = [*openings[1:], len(rows)]
    length = ends[-1] - openings[-1]
    for k, (start, end) in enumerate(zip(openings[:-1], ends[:-1], strict=True)):
        tail = rows[start + length : end]
        head = rows[max(0, openings[0] - len(tail)) : openings[0]]
        if not work.copies[tail].all() or work.kernels.count(head) != work.kernels.count(tail):
            names = listed(sorted({str(work.kernels[row]) for row in tail}))
            raise work.failure(
                f"there are no Step Ids, and iteration {k} has {len(tail)} rows more than the last one ({names}), "
                "which are not the restore copies that preceded the first noise kernel."
            )
        work.rule[tail] = RESTORE
        work.iteration[tail] = k + 1


def _by_repetition(work: Assignment, rows: np.ndarray, count: int) -> None:
    """A foreign capture without noise: its rows must be one sequence of kernels, `count` times over."""
    problem = f"there are no Step Ids and no noise, and the {len(rows)} rows are not {count} times the same sequence"
    if not count or not len(rows) or len(rows) % count:
        raise work.failure(f"{problem}.", WITH_STEPS)
    parts = rows.reshape(count, -1)
    kernels = work.kernels.codes[parts]
    different = np.flatnonzero((kernels != kernels[0]).any(axis=1))
    if len(different):
        raise work.failure(f"{problem}: iteration {different[0]} differs from the first.", WITH_STEPS)
    work.rule[rows] = GOLDEN
    work.iteration[parts] = np.arange(count)[:, None]
    work.how = f"The capture has neither Step Ids nor noise: its rows are one sequence of kernels, {count} times over."
