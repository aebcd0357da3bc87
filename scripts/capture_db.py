"""The kernels of a database export, `ascend_pytorch_profiler*.db`.

A kernel is a row of COMPUTE_TASK_INFO; TASK gives its times. TASK alone must not be counted: it also has copies, events
and, around every MIX kernel, an outer task. Communication is in COMMUNICATION_OP. Times are nanoseconds; names are
ids into STRING_IDS.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from scripts.capture_folder import open_readonly
from scripts.errors import CaseFailure
from scripts.kernel_table import UNKNOWN, Coded, KernelTable, unquoted
from scripts.status import Status

_KERNELS = """
SELECT task.startNs, task.endNs, task.deviceId, task.streamId,
       name.value, op.value, core.value, shapes.value, {blocks}
FROM COMPUTE_TASK_INFO AS info
JOIN TASK AS task USING (globalTaskId)
LEFT JOIN STRING_IDS AS name ON name.id = info.name
LEFT JOIN STRING_IDS AS op ON op.id = info.opType
LEFT JOIN STRING_IDS AS core ON core.id = info.taskType
LEFT JOIN STRING_IDS AS shapes ON shapes.id = info.inputShapes
"""
_COMMUNICATION = """
SELECT op.startNs, op.endNs, NULL, NULL, name.value, type.value, 'COMMUNICATION', NULL, NULL
FROM COMMUNICATION_OP AS op
LEFT JOIN STRING_IDS AS name ON name.id = op.opName
LEFT JOIN STRING_IDS AS type ON type.id = op.opType
"""


def read(path: Path) -> KernelTable:
    """Read every kernel of `path`, ordered by start.

    Raises CaseFailure(INCOMPLETE) when the file is no such database.
    """
    try:
        with open_readonly(path) as connection:
            return _read(connection, path)
    except sqlite3.Error as error:
        raise CaseFailure(
            Status.INCOMPLETE,
            f"{path} cannot be read as a profiler database: {error}.",
            "Profile again with export_type=[ExportType.Text], which writes kernel_details.csv.",
        ) from error


def _read(connection: sqlite3.Connection, path: Path) -> KernelTable:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    columns = {row[1] for row in connection.execute("PRAGMA table_info(COMPUTE_TASK_INFO)")}
    blocks = next((f"info.{column}" for column in ("blockNum", "blockDim") if column in columns), "NULL")
    rows = connection.execute(_KERNELS.format(blocks=blocks)).fetchall()
    if "COMMUNICATION_OP" in tables:
        rows += connection.execute(_COMMUNICATION).fetchall()
    rows.sort(key=lambda row: row[0])
    steps = connection.execute("SELECT id, startNs, endNs FROM STEP_TIME").fetchall() if "STEP_TIME" in tables else []
    start, end, device, stream, name, op, core, shapes, block = zip(*rows, strict=True) if rows else [()] * 9
    start_ns = np.array(start, np.int64)
    return KernelTable(
        paths=(path,),
        kind="db",
        first_rows=(0,),
        step_id=_steps(start, steps),
        device=Coded.of(None if cell is None else str(cell) for cell in device),
        stream=Coded.of(None if cell is None else str(cell) for cell in stream),
        name=_text(name),
        op=_text(op),
        core=_text(core),
        input_shapes=Coded.of(None if cell is None or cell in UNKNOWN else unquoted(cell) for cell in shapes),
        blocks=Coded.of(block),
        start_ns=start_ns,
        duration_ps=(np.array(end, np.int64) - start_ns) * 1000,
        wait_us=None,
    )


def _steps(start: Iterable[int], steps: list[tuple[int, int, int]]) -> Coded:
    """The step in whose range each kernel starts, unknown outside; ranges may touch, the first that fits wins."""
    return Coded.of(next((step for step, first, last in steps if first <= at <= last), None) for at in start)


def _text(cells: Iterable[str | None]) -> Coded:
    return Coded.of(None if cell is None or cell in UNKNOWN else cell for cell in cells)
