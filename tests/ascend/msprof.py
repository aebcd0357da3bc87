"""Stand-in for CANN's `msprof`: turns the tasks of a capture into the files that torch_npu reads.

    msprof --export=on [--type=db] --output=<.../PROF_...>
    msprof --analyze=on --output=<...>      nothing to do: there is no communication
    msprof --help

Durations come from the stand-in runtime and are made up; so are the pipe columns, which only follow from them.
STAND_IN_FAULT (see README.md) makes it go wrong in the ways the real one does.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import signal
import sqlite3
import statistics
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

# torch_npu looks for files every 0.1 s, later on a busy machine, and gives up on what depends on them when msprof has
# ended before it looked. A real export is in no such hurry.
LINGER_S, LINGER_LIMIT_S = 0.5, 30
CORES = {"AI_CORE": 20, "AI_VECTOR_CORE": 40}
CYCLES_PER_US = 1800
NONE = "N/A"
TASK_TIME_LEVEL0 = 0x800
PIPE_UTILIZATION, NO_METRICS = 1, 255

BASE = ["Op Name", "OP Type", "OP State", "Task Type"]
BASE += ["Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)"]
AIC_PIPES, AIV_PIPES = ("mac", "scalar", "mte1", "mte2", "fixpipe"), ("vec", "scalar", "mte2", "mte3")


def pipe_columns(side: str, pipes: tuple[str, ...]) -> list[str]:
    return [f"{side}_{pipe}_{what}" for pipe in pipes for what in ("time(us)", "ratio")] + [f"{side}_icache_miss_rate"]


LEVEL0_COLUMNS = ["Device_id", *(c for c in BASE if c != "OP State"), "Block Num"]
COLUMNS = ["Device_id", "Model ID", "Task ID", "Stream ID", *BASE, "Block Num", "Mix Block Num", "HF32 Eligible"]
COLUMNS += [f"{side} {what}" for side in ("Input", "Output") for what in ("Shapes", "Data Types", "Formats")]
COLUMNS += ["Context ID"]
PIPE_COLUMNS = ["aicore_time(us)", "aic_total_cycles", *pipe_columns("aic", AIC_PIPES)]
PIPE_COLUMNS += ["aiv_time(us)", "aiv_total_cycles", *pipe_columns("aiv", AIV_PIPES), "cube_utilization(%)"]


def faults() -> dict[str, str]:
    """The faults asked for, each with its value ("" without one)."""
    asked = [word for word in os.environ.get("STAND_IN_FAULT", "").split(",") if word]
    return {name: value for name, _, value in (word.partition("=") for word in asked)}


def chosen(text: str, count: int) -> range:
    """Positions that a Python slice such as "-7:" takes of `count`."""
    return range(count)[slice(*(int(part) if part else None for part in text.split(":")))]


@dataclasses.dataclass(frozen=True)
class Capture:
    """What one capture recorded. Times are epoch ns."""

    folder: Path
    metrics: int
    data_types: int
    tasks: list[dict]

    @property
    def launches(self) -> list[dict]:
        return [task for task in self.tasks if task["kind"] == "launch"]

    @property
    def level0(self) -> bool:
        return bool(self.data_types & TASK_TIME_LEVEL0)


def read_capture(folder: Path) -> Capture:
    sample = json.loads((folder / "host/sample.json").read_text())
    if sample["metrics"] not in (PIPE_UTILIZATION, NO_METRICS):
        sys.exit(f"the stand-in knows PipeUtilization and no metrics, not {sample['metrics']}")
    tasks = []
    for file in folder.glob("device_*/data/stand_in_tasks.jsonl"):
        tasks += [json.loads(line) for line in file.read_text().splitlines()]
    tasks = [task for task in tasks if task["end_ns"] > sample["begin_ns"]]
    tasks.sort(key=lambda task: (task["device"], task["start_ns"]))
    counts: Counter[str] = Counter()
    for task in tasks:
        kind = task["op_type"] if task["kind"] == "launch" else "MEMCPY_ASYNC"
        task["name"] = f"{kind}{counts[kind]}"  # as a compiled graph numbers its operators
        counts[kind] += 1
    return Capture(folder, sample["metrics"], sample["data_types"], tasks)


def us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def duration(task: dict) -> int:
    return task["end_ns"] - task["start_ns"]


# ---- op_summary ----


def tensor_cells(tensors: list[dict]) -> list[str]:
    """Shapes (with quotes of their own), data types and formats of a launch's inputs or outputs."""
    shapes = ";".join(",".join(map(str, tensor["shape"])) for tensor in tensors)
    return [f'"{shapes}"', *(";".join(tensor[key] for tensor in tensors) for key in ("dtype", "format"))]


def pipe_cells(task: dict) -> list[object]:
    """One cell per pipe column: as busy as the made-up duration says, the other side of the core idle."""
    if task["core"] not in CORES:
        return [NONE] * len(PIPE_COLUMNS)
    busy_us = duration(task) / 1000
    cube = task["core"] == "AI_CORE"
    memory = min(1.0, task["memory_ns"] / duration(task))
    compute = min(1.0, (task["cube_ns"] if cube else 0.4 * task["memory_ns"]) / duration(task))
    share = {"mac": compute, "vec": compute, "scalar": 0.05, "mte1": 0.6 * compute, "mte2": memory}
    share |= {"fixpipe": 0.1, "mte3": 0.3 * memory}
    cells: list[object] = []
    for pipes, used in ((AIC_PIPES, cube), (AIV_PIPES, not cube)):
        time_us = busy_us if used else 0.0
        cells += [round(time_us, 3), round(time_us * CYCLES_PER_US * CORES[task["core"]])]
        for pipe in pipes:
            cells += [round(time_us * share[pipe], 3), round(share[pipe], 3) if used else 0.0]
        cells.append(0.01 if used else 0.0)
    return [*cells, round(100 * compute, 3) if cube else 0.0]


def summary_row(task: dict, wait_ns: int, capture: Capture) -> dict[str, object]:
    row: dict[str, object] = {"Device_id": task["device"], "Op Name": task["name"], "Task Type": task["core"]}
    row |= {"Task Start Time(us)": us(task["start_ns"]) + "\t", "Task Duration(us)": us(duration(task))}
    row |= {"Task Wait Time(us)": us(wait_ns) + "000", "OP Type": task["op_type"]}
    row["Block Num"] = CORES.get(task["core"], 0)
    if capture.level0:
        return row | {"OP Type": NONE, "Task Type": NONE, "Block Num": 0}
    row |= {"Model ID": 4294967295, "Task ID": task["task"], "Stream ID": task["stream"], "Mix Block Num": 0}
    row |= {"OP State": "static" if task["core"] in CORES else NONE, "HF32 Eligible": "NO", "Context ID": NONE}
    for side in ("Input", "Output"):
        cells = tensor_cells(task[f"{side.lower()}s"])
        row |= {f"{side} {what}": cell for what, cell in zip(("Shapes", "Data Types", "Formats"), cells, strict=True)}
    return row | dict(zip(PIPE_COLUMNS, pipe_cells(task), strict=True))


def summary_rows(capture: Capture) -> list[dict[str, object]]:
    rows, last_end = [], None
    for task in capture.launches:
        wait = 0 if last_end is None else max(0, task["start_ns"] - last_end)
        rows.append(summary_row(task, wait, capture))
        last_end = task["end_ns"]
    return rows


def summary_columns(capture: Capture) -> list[str]:
    if capture.level0:
        return LEVEL0_COLUMNS
    return COLUMNS + (PIPE_COLUMNS if capture.metrics == PIPE_UTILIZATION else [])


# ---- the other tables ----


def statistic_rows(capture: Capture) -> list[dict[str, object]]:
    """op_statistic: one row per operator type and core type, times in us, longest total first."""
    groups: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    for task in capture.launches:
        groups[task["device"], task["op_type"], task["core"]].append(duration(task) / 1000)
    total = sum(sum(times) for times in groups.values())
    rows = []
    for (device, op_type, core), times in sorted(groups.items(), key=lambda item: -sum(item[1])):
        row = {"Device_id": device, "OP Type": op_type, "Core Type": core, "Count": len(times)}
        row |= {"Total Time(us)": round(sum(times), 3), "Min Time(us)": min(times)}
        row |= {"Avg Time(us)": round(statistics.fmean(times), 3), "Max Time(us)": max(times)}
        rows.append(row | {"Ratio(%)": round(100 * sum(times) / total, 3)})
    return rows


def api_rows(capture: Capture) -> list[dict[str, object]]:
    calls: dict[str, list[float]] = defaultdict(list)
    for task in capture.tasks:
        calls[api_name(task)].append((task["host_end_ns"] - task["host_start_ns"]) / 1000)
    rows = []
    for name, times in sorted(calls.items()):
        row = {"Device_id": "host", "Level": "acl", "API Name": name, "Time(us)": round(sum(times), 3)}
        row |= {"Count": len(times), "Avg(us)": round(statistics.fmean(times), 3), "Min(us)": min(times)}
        rows.append(row | {"Max(us)": max(times), "Variance": round(statistics.pvariance(times), 3)})
    return rows


def task_rows(capture: Capture) -> list[dict[str, object]]:
    rows = []
    for task in capture.tasks:
        row = {"Device_id": task["device"], "kernel_name": task["name"], "kernel_type": task_type(task)}
        row |= {"stream_id": task["stream"], "task_id": task["task"], "task_time(us)": us(duration(task))}
        rows.append(row | {"task_start(us)": us(task["start_ns"]) + "\t", "task_stop(us)": us(task["end_ns"]) + "\t"})
    return rows


def api_name(task: dict) -> str:
    return "aclopCompileAndExecute" if task["kind"] == "launch" else "aclrtMemcpyAsync"


def task_type(task: dict) -> str:
    return task["core"] if task["kind"] == "launch" else "MEMCPY_ASYNC"


# ---- timeline ----

HOST_PID, HARDWARE_PID, OVERLAP_PID = 1, 10, 20


def process_events(capture: Capture) -> list[dict]:
    events = []
    names = [(HOST_PID, "CANN", "CPU")]
    for device in sorted({task["device"] for task in capture.tasks}):
        names.append((HARDWARE_PID + device * 100, "Ascend Hardware", f"NPU {device}"))
        names.append((OVERLAP_PID + device * 100, "Overlap Analysis", f"NPU {device}"))
    for pid, name, label in names:
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        events.append({"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": label}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}})
    return events


def slice_event(name: str, pid: int, tid: int, start_ns: int, end_ns: int, **args: object) -> dict:
    return {
        "ph": "X",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": us(start_ns),
        "dur": (end_ns - start_ns) / 1000,
        "args": args,
    }


def task_events(task: dict, flow: bool) -> list[dict]:
    """The host call, the task on the device and, with `flow`, the arrow between them."""
    host, device = (HOST_PID, task["tid"]), (HARDWARE_PID + task["device"] * 100, task["stream"])
    args = {"Model Id": 4294967295, "Task Type": task_type(task), "Stream Id": task["stream"], "Task Id": task["task"]}
    events = [
        slice_event(f"AscendCL@{api_name(task)}", *host, task["host_start_ns"], task["host_end_ns"]),
        slice_event(task["name"], *device, task["start_ns"], task["end_ns"], **args),
    ]
    if flow:
        arrow = {"cat": "HostToDevice", "name": "HostToDevice", "bp": "e", "id": str(task["task"])}
        events.append(arrow | {"ph": "s", "pid": host[0], "tid": host[1], "ts": us(task["host_start_ns"])})
        events.append(arrow | {"ph": "f", "pid": device[0], "tid": device[1], "ts": us(task["start_ns"])})
    return events


def overlap_events(launches: list[dict]) -> list[dict]:
    """Computing where a kernel runs and Free between them, per device."""
    events: list[dict] = []
    busy_until: dict[int, int] = {}
    for task in launches:
        pid, end = OVERLAP_PID + task["device"] * 100, busy_until.get(task["device"], task["start_ns"])
        if task["start_ns"] > end:
            events.append(slice_event("Free", pid, 2, end, task["start_ns"]))
        if task["end_ns"] > end:
            events.append(slice_event("Computing", pid, 1, max(end, task["start_ns"]), task["end_ns"]))
        busy_until[task["device"]] = max(end, task["end_ns"])
    return events


def timeline(capture: Capture, without_flow: range) -> list[dict]:
    hidden = {id(task) for position, task in enumerate(capture.launches) if position in without_flow}
    no_flow_at_all = len(hidden) == len(capture.launches)
    events = process_events(capture)
    for task in capture.tasks:
        events += task_events(task, flow=not no_flow_at_all and id(task) not in hidden)
    return events + overlap_events(capture.launches)


# ---- writing ----


def write_csv(path: Path, columns: list[str], rows: list[dict[str, object]]) -> None:
    """Write under another name first: torch_npu reads a .csv as soon as it sees one."""
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    partial.rename(path)


def write_tables(capture: Capture, output: Path, stamp: str, asked: dict[str, str]) -> None:
    rows = summary_rows(capture)
    for position in reversed(chosen(asked.get("drop_rows", "0:0"), len(rows))):
        del rows[position]
    summary = output / f"op_summary_{stamp}.csv"
    if "csv_empty" in asked:
        summary.touch()
    elif rows or "csv_header_only" in asked:
        write_csv(summary, summary_columns(capture), [] if "csv_header_only" in asked else rows)
    tables = {"task_time": task_rows(capture)}
    if not capture.level0:
        tables |= {"op_statistic": statistic_rows(capture), "api_statistic": api_rows(capture)}
    for name, table in tables.items():
        if table:
            write_csv(output / f"{name}_{stamp}.csv", list(table[0]), table)


DB_TABLES = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "TASK": "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,"
    " globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER",
    "COMPUTE_TASK_INFO": "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER,"
    " taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER,"
    " outputFormats INTEGER, outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER",
    "CANN_API": "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER PRIMARY KEY,"
    " name INTEGER",
    "NPU_INFO": "id INTEGER, name TEXT",
}
API_OF_NODE = 10000


def db_rows(capture: Capture) -> dict[str, list[tuple]]:
    """Rows of each table of a msprof_*.db, times in ns; texts are numbers that STRING_IDS explains."""
    strings: dict[str, int] = {}

    def number(text: str) -> int:
        return strings.setdefault(text, len(strings))

    rows: dict[str, list[tuple]] = {table: [] for table in DB_TABLES}
    for key, task in enumerate(capture.tasks):
        times, place = (task["start_ns"], task["end_ns"]), (task["device"], key, key, task["pid"])
        rows["TASK"].append((*times, *place, number(task_type(task)), 0, task["stream"], task["task"], 4294967295))
        call = (task["host_start_ns"], task["host_end_ns"], API_OF_NODE, task["pid"] << 32 | task["tid"])
        rows["CANN_API"].append((*call, key, number(api_name(task))))
        if task["kind"] == "launch":
            shapes, kinds, forms = map(number, tensor_cells(task["inputs"]))
            out_shapes, out_kinds, out_forms = map(number, tensor_cells(task["outputs"]))
            what = (
                number(task["name"]),
                key,
                CORES.get(task["core"], 0),
                0,
                number(task["core"]),
                number(task["op_type"]),
            )
            tensors = (forms, kinds, shapes, out_forms, out_kinds, out_shapes)
            rows["COMPUTE_TASK_INFO"].append((*what, *tensors, number(NONE)))
    rows["NPU_INFO"] = [(device, "Ascend910B3") for device in sorted({task["device"] for task in capture.tasks})]
    rows["STRING_IDS"] = [(key, text) for text, key in strings.items()]
    return rows


def write_db(capture: Capture, path: Path) -> None:
    partial = path.with_suffix(".partial")
    with sqlite3.connect(partial) as db:
        for table, rows in db_rows(capture).items():
            columns = DB_TABLES[table]
            db.execute(f"CREATE TABLE {table} ({columns})")
            db.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(columns.split(',')))})", rows)
    db.close()
    partial.rename(path)


def linger(folder: Path, since: float) -> None:
    """Stay until torch_npu, if it is what called, has begun with what depends on these files."""
    time.sleep(LINGER_S)
    logs = folder.parent / "logs"

    def noticed() -> bool:
        return any(log.stat().st_mtime >= since for log in logs.glob("profiler_*_CANNAnalyzeParser.log"))

    while logs.is_dir() and not noticed() and time.time() < since + LINGER_LIMIT_S:
        time.sleep(0.1)


def export(folder: Path, to_db: bool) -> int:
    """Write the files of one capture; the exit status, which the real one does not promise to mean anything."""
    asked = faults()
    if "msprof_fails" in asked:
        print("the stand-in was told to fail", file=sys.stderr)
        return 1
    time.sleep(float(asked.get("msprof_slow") or 0))
    if "msprof_silent" in asked:
        return 0
    capture = read_capture(folder)
    began = time.time()
    stamp = time.strftime("%Y%m%d%H%M%S")
    if to_db or "db_only" in asked:
        write_db(capture, folder / f"msprof_{stamp}.db")
        if to_db and "msprof_hasty" not in asked:
            linger(folder, began)
        return 0
    output = folder / "mindstudio_profiler_output"
    output.mkdir(mode=0o750, exist_ok=True)
    events = timeline(capture, chosen(asked.get("no_flow", "0:0"), len(capture.launches)))
    (output / f"msprof_{stamp}.json").write_text(json.dumps(events))
    if "msprof_killed" in asked:
        os.kill(os.getpid(), signal.SIGKILL)
    write_tables(capture, output, stamp, asked)
    if "msprof_hasty" not in asked:
        linger(folder, began)
    return 0


def main(arguments: list[str]) -> int:
    options = dict(word.partition("=")[::2] for word in arguments)
    if "--help" in options:
        print(__doc__)
        return 0
    if options.get("--export") == "on":
        return export(Path(options["--output"]), to_db=options.get("--type") == "db")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
