"""The history of all nights: one Parquet file per run under history/, so that machines' histories merge by copying.

A file is written once its run has ended, atomically, and again only when the same run was resumed. DuckDB reads them
all as one table `history`:

    goldenprof history "SELECT case_id, median(e2e_us) FROM history WHERE status = 'ok' GROUP BY ALL"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts import artifacts
from scripts.errors import ConfigError

if TYPE_CHECKING:
    import duckdb
    import pyarrow

FOLDER = Path("history")
# Raised when a column changes its meaning. New columns do not need it: where a file lacks one, its default is read.
SCHEMA_VERSION = 1
VERSION_KEY, RUN_KEY = b"goldenprof.schema_version", b"goldenprof.run_id"


@dataclass(frozen=True)
class OpTime:
    """One op type of a case's central iteration."""

    op: str
    core: str
    count: int
    total_us: float


@dataclass(frozen=True)
class HistoryRow:
    """One measurement of one case in one run; a case measured twice in a night has two."""

    run_id: str
    run_started_at: datetime  # UTC
    host: str
    commit: str  # of the cases' repository, "" where there is none
    dirty: bool  # it had changes that were not committed
    interrupted: bool  # the run ended before every case had
    case_id: str  # "<operator>/<case>"
    family: str
    tier: str
    status: str
    measurement: int = 1  # 2: measured again because the first was suspicious
    reason: str = ""
    device_kind: str = ""
    device_model: str = ""
    physical_id: str = ""  # of the device on its machine
    stand_in: bool = False
    scope: str = ""  # what e2e_us sums, and in which cache mode
    key: str = ""
    code: str = ""  # digest of the golden's code with the case's call
    identity: str = ""  # digest of inputs with their contents, scalars and cache mode
    conditions: str = "{}"  # JSON object of what may move the number: versions, threads, code, iterations
    dtypes: list[str] = field(default_factory=list)  # of the inputs
    inputs: str = ""  # "q: bfloat16[2, 8, 512, 64], …"
    measured_at: datetime | None = None
    e2e_us: float | None = None  # median over iterations; exact decimals are in perf.json
    min_us: float | None = None
    max_us: float | None = None
    iqr_us: float | None = None
    median_low_us: float | None = None  # 95 % interval of the median
    median_high_us: float | None = None
    device_span_us: float | None = None
    host_wall_us: float | None = None
    kernels: int | None = None
    flops: int | None = None  # of one call, where they could be counted
    bytes_moved: int | None = None  # of one call: inputs read once, results written once
    peak_tflops: float | None = None  # measured, in the call's dtype
    peak_gbps: float | None = None
    iteration_us: list[float] = field(default_factory=list)
    ops: list[OpTime] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    folder: str = ""  # the run's artifacts, relative to the project
    profiler_dir: str = ""  # the capture inside it
    log: str = ""
    command: str = ""


def write(folder: Path, rows: Sequence[HistoryRow]) -> Path:
    """Write the rows of one run, at least one, to `<folder>/<run id>.parquet`; returns that path."""
    import pyarrow
    from pyarrow import parquet

    run_id = rows[0].run_id
    table = pyarrow.Table.from_pylist([asdict(row) for row in rows], schema=_schema(run_id))
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    path = folder / f"{run_id}.parquet"
    artifacts.write_bytes(path, sink.getvalue().to_pybytes())
    return path


class History:
    """All runs of a folder, read only; `problems` names the files that are left out, each with its reason."""

    def __init__(self, folder: Path = FOLDER) -> None:
        import duckdb

        self._files, self.problems = _usable(folder)
        self._database = duckdb.connect()
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.register("no_rows", _schema("").empty_table())
        self._look_at_files()

    def _look_at_files(self) -> None:
        rows = "SELECT * FROM no_rows"
        if self._files:
            rows += f" UNION ALL BY NAME SELECT * FROM read_parquet({_literal(self._files)}, union_by_name = true)"
        self._database.execute(f"CREATE OR REPLACE VIEW history AS {rows}")

    def _leave_out_damaged(self) -> bool:
        """Read all files to the end, and leave out those that cannot be; True when there were some."""
        from pyarrow import ArrowException, parquet

        known = len(self._files)
        for path in list(self._files):
            try:
                parquet.read_table(path)
            except (OSError, ArrowException) as error:
                self._files.remove(path)
                self.problems.append(f"{path} is damaged and is left out: {error}. Copy it again or remove it.")
        self._look_at_files()
        return len(self._files) < known

    def query(self, sql: str, values: Sequence[Any] = ()) -> duckdb.DuckDBPyConnection:
        """Run `sql` against the table `history`; fetch from what comes back. ConfigError has DuckDB's words."""
        import duckdb

        try:
            return self._database.execute(sql, list(values))
        except duckdb.Error as error:
            if self._leave_out_damaged():
                return self.query(sql, values)
            raise ConfigError(
                f"The history cannot be asked that: {error}\nCorrect the SQL: the table is called history, and "
                "`DESCRIBE history` lists its columns."
            ) from None

    def runs(self, models: Sequence[str] = ()) -> list[str]:
        """Ids of the runs, oldest first: all, or those that measured on one of these device models, or on none."""
        sql = "SELECT run_id FROM history GROUP BY run_id"
        if models:
            sql += " HAVING bool_or(list_contains(?, device_model)) OR max(coalesce(device_model, '')) = ''"
        found = self.query(f"{sql} ORDER BY min(run_started_at), run_id", [list(models)] if models else [])
        return [row[0] for row in found.fetchall()]

    def rows(self, runs: Iterable[str], without: Iterable[str] = ()) -> list[HistoryRow]:
        """All rows of `runs`, oldest run first; columns named in `without` have their defaults, and cost nothing."""
        left_out = set(without)
        columns = [column.name for column in fields(HistoryRow) if column.name not in left_out]
        found = self.query(
            f"SELECT {', '.join(columns)} FROM history WHERE list_contains(?, run_id) "
            "ORDER BY run_started_at, run_id, case_id, measurement",
            [list(runs)],
        )
        return [_row(dict(zip(columns, values, strict=True))) for values in found.fetchall()]


def _row(values: dict[str, Any]) -> HistoryRow:
    """A row from a file of any version: what it lacks has its default."""
    known = {name: value for name, value in values.items() if value is not None}
    for name in ("run_started_at", "measured_at"):
        if name in known:
            known[name] = known[name].replace(tzinfo=UTC)
    if "ops" in known:
        known["ops"] = [OpTime(**op) for op in known["ops"]]
    return HistoryRow(**{**_UNKNOWN, **known})


_UNKNOWN: dict[str, Any] = {"host": "", "commit": "", "dirty": False, "interrupted": False, "family": "", "tier": ""}


def _usable(folder: Path) -> tuple[list[Path], list[str]]:
    """The files of `folder` that can be read, and a sentence on each that cannot."""
    from pyarrow import ArrowException, parquet

    files, problems = [], []
    for path in sorted(folder.glob("*.parquet")):
        try:
            metadata = parquet.read_metadata(path).metadata or {}
        except (OSError, ArrowException) as error:
            problems.append(f"{path} is no readable Parquet file and is left out: {error}. Copy it again or remove it.")
            continue
        if problem := _problem(path, metadata):
            problems.append(problem)
        else:
            files.append(path)
    return files, problems


def _problem(path: Path, metadata: dict[bytes, bytes]) -> str:
    version, run_id = metadata.get(VERSION_KEY, b"").decode(), metadata.get(RUN_KEY, b"").decode()
    if not version.isdigit():
        return f"{path} is not a run's history and is left out. Keep other files elsewhere."
    if int(version) > SCHEMA_VERSION:
        return (
            f"{path} has schema version {version}, newer than {SCHEMA_VERSION}, which this version reads; it is left "
            "out. Update this project."
        )
    if path.stem != run_id:
        return f"{path} is a copy of run {run_id} under another name and is left out. Remove it, or rename it back."
    return ""


def _literal(files: Sequence[Path]) -> str:
    return "[" + ", ".join("'" + str(path).replace("'", "''") + "'" for path in files) + "]"


def _schema(run_id: str) -> pyarrow.Schema:
    """The columns of HistoryRow as Arrow types."""
    import pyarrow as pa

    text, number, count, flag = pa.string(), pa.float64(), pa.int64(), pa.bool_()
    when = pa.timestamp("us", tz="UTC")
    op = pa.struct([("op", text), ("core", text), ("count", count), ("total_us", number)])
    by_type = {
        "str": text,
        "bool": flag,
        "int": count,
        "int | None": count,
        "float | None": number,
        "datetime": when,
        "datetime | None": when,
        "list[float]": pa.list_(number),
        "list[str]": pa.list_(text),
        "list[OpTime]": pa.list_(op),
    }
    columns = [(column.name, by_type[str(column.type)]) for column in fields(HistoryRow)]
    return pa.schema(columns, metadata={VERSION_KEY: str(SCHEMA_VERSION), RUN_KEY: run_id})


def add_parser(subparsers: Any, summary: str) -> None:
    """The options of `goldenprof history`."""
    parser = subparsers.add_parser("history", help=summary, description=__doc__)
    parser.add_argument("sql", help="its one table is `history`; docs/history.md lists the columns")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="default: %(default)s")
    parser.add_argument("--csv", action="store_true", help="print CSV instead of a table")


def main(options: argparse.Namespace) -> int:
    """Print the answer."""
    history = History(options.folder)
    for problem in history.problems:
        print(problem, file=sys.stderr)
    found = history.query(options.sql).df()
    print(found.to_csv(index=False) if options.csv else f"{found.to_string(index=False)}\n", end="")
    return 0
