"""A sweep of eight operators with five cases each, and the comparison of two such sweeps in everything but times."""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import msgspec

from scripts import artifacts
from scripts.artifacts import InputsRecord, OutputRecord, PerfRecord

# The body of each operator's golden, on x: (rows, columns) float32.
OPERATORS = {
    "add_golden": "x + 1",
    "centre_golden": "x - x.mean(dim=1, keepdim=True)",
    "gelu_golden": "torch.nn.functional.gelu(x)",
    "gram_golden": "x @ x.T",
    "norm_golden": "x * torch.rsqrt((x * x).mean(dim=1, keepdim=True) + 1e-6)",
    "softmax_golden": "torch.exp(x - x.amax(dim=1, keepdim=True)) / torch.exp(x).sum(dim=1, keepdim=True)",
    "sort_golden": "torch.sort(x, dim=1).values",
    "twice_golden": "torch.cumsum(x * 2, dim=0)",
}
SHAPES = ([8, 16], [64, 64], [33, 7], [256, 32], [5, 500])
CASES = len(OPERATORS) * len(SHAPES)
RUN_FOLDER = re.compile(r"[^/\s`]+_ascend_pt")


def project(path: Path) -> Path:
    """A folder with the cases."""
    (path / "golden").mkdir(parents=True)
    (path / "config").mkdir()
    lines = ["defaults: {warmup: 1, iterations: 3, noise_mib: 1, device: cpu}", "operators:"]
    for operator, body in OPERATORS.items():
        golden = f'"""A small operator."""\n\nimport torch\n\n\ndef {operator}(x):\n    return {body}\n'
        (path / f"golden/{operator}.py").write_text(golden)
        lines += [f"  {operator}:", f"    golden: golden/{operator}.py", "    mode: A", "    cases:"]
        lines += [
            f"      c{i}: {{inputs: {{x: {{shape: {shape}, dtype: float32}}}}}}" for i, shape in enumerate(SHAPES)
        ]
    (path / "config/cases.yaml").write_text("\n".join(lines) + "\n")
    return path


def differences(wanted: Path, found: Path) -> list[str]:
    """What differs between two finished sweeps in more than times, one sentence each."""
    return [
        f"{what}: {_first_difference(expected, actual)}"
        for what, expected, actual in _pairs(wanted, found)
        if expected != actual
    ]


def _pairs(wanted: Path, found: Path) -> Iterator[tuple[str, object, object]]:
    both = (wanted, found)
    yield "names of files", *map(_names, both)
    for perf in results(wanted):
        folder = perf.parent
        if not (found / perf).exists():
            yield str(perf), "there", "missing"
            continue
        yield f"{folder}/inputs.json", *(_inputs(each / folder) for each in both)
        yield f"{folder}/output.json", *(_output(each / folder) for each in both)
        yield f"{folder}/perf.json", *(_perf(each / folder) for each in both)
        yield f"{folder.parent}/latest", *((each / folder.parent / "latest").readlink() for each in both)
    for page in sorted(path.relative_to(wanted) for path in wanted.glob("reports/**/*.md")):
        yield str(page), *(_skeleton(each / page) for each in both)
    yield "reports/summary.csv", *map(table, both)
    yield "reports/junit.xml", *map(_tests, both)
    yield "reports/summary.json", *(_structure(msgspec.json.decode(_text(each, "summary.json"))) for each in both)


def results(project: Path, name: str = "perf.json") -> list[Path]:
    """The file of that name of every case that has one, relative to the project."""
    found = project.glob(f"prof/*/*/*-cpu-*/{name}")
    return sorted(path.relative_to(project) for path in found)


def _names(project: Path) -> set[str]:
    return {
        RUN_FOLDER.sub("*_ascend_pt", path.relative_to(project).as_posix())
        for folder in ("prof", "reports")
        for path in (project / folder).rglob("*")
        if path.is_file() and path.suffix != ".log" and "latest" not in path.parts
    }


def _inputs(folder: Path) -> dict[str, object]:
    """Everything: shapes, recipes, hashes of the tensors, digests of the code, facts of the device."""
    return asdict(artifacts.read(folder / "inputs.json", InputsRecord))


def _output(folder: Path) -> tuple[object, ...]:
    record = artifacts.read(folder / "output.json", OutputRecord)
    return RUN_FOLDER.sub("*", record.source), record.source_kind, len(record.others), record.stamp.partition("-")[0]


def _perf(folder: Path) -> dict[str, object]:
    """What was measured, how, and which kernels it had in which number; no times."""
    perf = artifacts.read(folder / "perf.json", PerfRecord)
    profile = perf.profile
    return {
        "key": profile.key,
        "status": str(perf.status),
        "device": profile.device,
        "versions": profile.versions,
        "settings": profile.settings,
        "noise": profile.noise,
        "inputs": profile.inputs,
        "outputs": profile.outputs,
        "restored": profile.restored,
        "iterations": [(total.iteration, total.step_id, total.kernels) for total in perf.iterations],
        "ops": sorted((op.op, op.core, op.count) for op in perf.ops),
        "kernels": sorted((row.op, row.name, row.core, row.input_shapes, row.count) for row in perf.kernels),
        "dropped": sorted((row.rule, row.op, row.name, row.input_shapes) for row in perf.dropped),
        "cross-check": (perf.cross_check.source, perf.cross_check.agrees),
        "flops": profile.flops,
        "bytes": profile.bytes_moved,
    }


def _skeleton(page: Path) -> list[str]:
    """Headings, labels, and each table by its header and number of rows. Warnings depend on the load, so on times."""
    lines = page.read_text(encoding="utf-8").splitlines()
    kept, rows = [], 0
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        rows = rows + 1 if line.startswith("|") else 0
        if line.startswith("#") and "Warnings" not in line:
            kept.append(line)
        elif label := re.match(r"- \*\*[^*]+\*\*", line):
            kept.append(label[0])
        elif rows == 1:
            kept.append(line)
        elif rows and not following.startswith("|"):
            kept.append(f"{rows} rows")
    return kept


def table(project: Path) -> list[tuple[str, ...]]:
    """The rows of summary.csv: operator, case, status and what else is no time."""
    with (project / "reports/summary.csv").open(newline="", encoding="utf-8") as file:
        told = ("operator", "case", "status", "device", "device_model", "iterations", "kernels", "key", "report")
        return [tuple(row[name] for name in told) for row in csv.DictReader(file)]


def _tests(project: Path) -> list[str]:
    return re.findall(r'<testcase [^>]*?name="([^"]*)"', _text(project, "junit.xml"))


def _text(project: Path, name: str) -> str:
    return (project / "reports" / name).read_text(encoding="utf-8")


def _structure(value: object) -> object:
    """JSON's shape: names and kinds of values."""
    if isinstance(value, dict):
        return {name: _structure(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_structure(entry) for entry in value]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _first_difference(wanted: object, found: object) -> str:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in {**wanted, **found}:
            if wanted.get(name) != found.get(name):
                return f"{name}: {_first_difference(wanted.get(name), found.get(name))}"
    if isinstance(wanted, set) and isinstance(found, set):
        return f"only in the one {sorted(wanted - found)[:5]}, only in the other {sorted(found - wanted)[:5]}"
    if isinstance(wanted, list) and isinstance(found, list):
        for one, other in zip(wanted, found, strict=False):
            if one != other:
                return _first_difference(one, other)
    return textwrap.shorten(f"{wanted!r} against {found!r}", 400)
