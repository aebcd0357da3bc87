"""Captures that were cut, mixed up, overwritten or are still being written: the right number, or none.

The fuzzers run for longer with `FUZZ_EXAMPLES=20000 python -m pytest tests/faults/test_damaged_captures.py`.
"""

from __future__ import annotations

import csv
import io
import os
import random
import re
import shutil
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts import artifacts, kernel_table, locate_output, parse_csv, report
from scripts.errors import ArtifactError, CaseFailure
from scripts.status import Status
from tests import records
from tests.traces import CAPTURE, GOLDENS, build

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
DETAILS = f"{CAPTURE}/ASCEND_PROFILER_OUTPUT/kernel_details.csv"
GOLDEN = "softmax with amax"


def captured(folder: Path, golden: str = GOLDEN, iterations: int = 3) -> Path:
    """A whole case's folder, and its E2E beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    build(GOLDENS[golden], iterations, restores=1).write(folder)
    return folder


def read(case_dir: Path) -> Decimal:
    """The E2E by the pipeline's two steps."""
    locate_output.run(case_dir)
    return parse_csv.parse(case_dir).e2e_us


def refused(case_dir: Path, *words: str) -> CaseFailure:
    with pytest.raises(CaseFailure) as caught:
        read(case_dir)
    for word in words:
        assert word in caught.value.message + caught.value.advice
    assert caught.value.status in (Status.INCOMPLETE, Status.MISSING_OUTPUT, Status.NO_KERNELS)
    return caught.value


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut in the middle of a row": lambda data: data[: len(data) * 2 // 3],
    "cut after a row": lambda data: data[: data.rindex(b"\n", 0, len(data) * 2 // 3) + 1],
    "cut after an iteration": lambda data: b"".join(data.splitlines(keepends=True)[:8]),
    "empty": lambda data: b"",
    "header alone": lambda data: data.splitlines(keepends=True)[0],
    "twice": lambda data: data + data,
    "twice without the second header": lambda data: data + b"".join(data.splitlines(keepends=True)[1:]),
    "all zero bytes": lambda data: bytes(len(data)),
    "a block of zero bytes at the end": lambda data: data[:-100] + bytes(100),
    "binary": lambda data: random.Random(0).randbytes(20_000),
    "compressed": lambda data: b"\x1f\x8b\x08\x00" + data,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "HTML": lambda data: b"<html><body>504 Gateway Time-out</body></html>\n" * 3,
    "semicolons": lambda data: data.replace(b",", b";"),
    "decimal commas": lambda data: data.replace(b"5.125", b'"5,125"').replace(b"310.04", b'"310,04"'),
    "two columns swapped": lambda data: data.replace(b"Start Time(us),Duration(us)", b"Duration(us),Start Time(us)"),
    "one duration changed": lambda data: data.replace(b"310.04", b"3.1004", 1),
    "a row lost": lambda data: b"".join(line for k, line in enumerate(data.splitlines(keepends=True)) if k != 5),
    "a cell of a megabyte": lambda data: data.replace(b"Sub", b"S" * 2**20, 1),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_table_gives_no_number(name: str, tmp_path: Path) -> None:
    case_dir = captured(tmp_path / "case")
    path = case_dir / DETAILS
    whole = path.read_bytes()
    damaged = DAMAGE[name](whole)
    assert damaged != whole
    path.write_bytes(damaged)
    refused(case_dir)


def test_a_line_end_that_was_converted_changes_no_number(tmp_path: Path) -> None:
    case_dir = captured(tmp_path / "case")
    right = read(case_dir)
    path = case_dir / DETAILS
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))
    assert read(case_dir) == right


def test_a_table_of_another_case_gives_no_number(tmp_path: Path) -> None:
    mine, other = captured(tmp_path / "mine"), captured(tmp_path / "other", "casts")
    shutil.copy(other / DETAILS, mine / DETAILS)
    refused(mine)


def test_a_capture_of_fewer_iterations_gives_no_number(tmp_path: Path) -> None:
    mine, other = captured(tmp_path / "mine"), captured(tmp_path / "other", iterations=2)
    shutil.rmtree(mine / CAPTURE)
    shutil.copytree(other / CAPTURE, mine / CAPTURE)
    refused(mine)


def test_steps_beyond_the_iterations_are_not_the_goldens(tmp_path: Path) -> None:
    mine, other = captured(tmp_path / "mine"), captured(tmp_path / "other", iterations=4)
    right = read(mine)
    shutil.rmtree(mine / CAPTURE)
    shutil.copytree(other / CAPTURE, mine / CAPTURE)
    assert read(mine) == right


def test_a_table_that_grows_while_it_is_read_is_never_half_believed(tmp_path: Path) -> None:
    case_dir = captured(tmp_path / "case")
    right = read(case_dir)
    path = case_dir / DETAILS
    lines = path.read_bytes().splitlines(keepends=True)
    ended = threading.Event()

    def write_again_and_again() -> None:
        while not ended.is_set():
            with path.open("wb", buffering=0) as file:
                for line in lines:
                    file.write(line[:9])
                    file.write(line[9:])

    writer = threading.Thread(target=write_again_and_again)
    writer.start()
    outcomes = set()
    try:
        for _ in range(60):
            try:
                outcomes.add(read(case_dir))
            except CaseFailure:
                outcomes.add(None)
    finally:
        ended.set()
        writer.join()
    assert outcomes <= {right, None}
    assert None in outcomes, "the writer was never caught in the middle: the test shows nothing"


@pytest.mark.parametrize("left", [b"", b"Name\n", b"Name\nx\n\n", b"Name\n\xff\n", b'"'])
def test_a_table_that_shrinks_before_its_lines_are_counted_is_said_to_have_changed(left: bytes, tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    path.write_bytes(left)
    with pytest.raises(CaseFailure, match=r"kernel_details\.csv was changed while it was read"):
        kernel_table._line_numbers(path, 20)


def test_a_folder_in_place_of_the_table_gives_no_number(tmp_path: Path) -> None:
    case_dir = captured(tmp_path / "case")
    (case_dir / DETAILS).unlink()
    (case_dir / DETAILS).mkdir()
    refused(case_dir, "kernel_details.csv")


def test_a_table_that_is_a_dead_link_gives_no_number(tmp_path: Path) -> None:
    case_dir = captured(tmp_path / "case")
    (case_dir / DETAILS).unlink()
    (case_dir / DETAILS).symlink_to("/nowhere")
    refused(case_dir, "kernel_details.csv")


@FUZZ
@given(st.data())
def test_a_table_with_random_damage_gives_the_right_number_or_none(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Bytes replaced, removed, repeated anywhere: another number than the right one is never given."""
    case_dir = captured(tmp_path_factory.getbasetemp() / "fuzzed")
    right = read(case_dir)
    path = case_dir / DETAILS
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(start + 80, len(whole))))
    piece = data.draw(st.sampled_from([b"", whole[start:end] * 2]) | st.binary(max_size=40) | _CELLS)
    path.write_bytes(whole[:start] + piece + whole[end:])
    try:
        assert read(case_dir) == right
    except CaseFailure:
        pass


_CELLS = st.text("0123456789.,-+eE\"'\t\r\n N/A\0µ", max_size=20).map(str.encode)


@FUZZ
@given(st.binary(max_size=400) | _CELLS)
def test_a_table_of_random_bytes_gives_no_number(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    case_dir = captured(tmp_path_factory.getbasetemp() / "random")
    header = (case_dir / DETAILS).read_bytes().splitlines(keepends=True)[0]
    for text in (content, header + content):
        (case_dir / DETAILS).write_bytes(text)
        refused(case_dir)


@FUZZ
@given(
    st.sampled_from(["profile.json", "output.json", "inputs.json", "perf.json"]),
    st.binary(max_size=200)
    | st.sampled_from([b"[]", b"{}", b"null", b'{"schema_version": 1, "kind": "perf"}', b"[" * 9999]),
)
def test_a_record_of_random_bytes_is_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    types = {
        "profile.json": artifacts.ProfileRecord,
        "output.json": artifacts.OutputRecord,
        "inputs.json": artifacts.InputsRecord,
        "perf.json": artifacts.PerfRecord,
    }
    with pytest.raises(ArtifactError, match=r"cannot be read|has kind"):
        artifacts.read(path, types[name])


_TEXT = st.text(max_size=30) | st.sampled_from(
    [
        "<script>alert(1)</script>",
        "a|b",
        "|",
        "\n# heading",
        "```",
        "[x](javascript:alert(1))",
        "\\",
        "\u202e",
        "\x1b[31m",
    ]
)


@FUZZ
@given(st.lists(_TEXT, min_size=7, max_size=7))
def test_a_report_of_random_text_keeps_its_tables(texts: list[str]) -> None:
    """Whatever stands in names: no markup of its own, and every table row has its header's number of cells."""
    op, core, operator, model, warning, dropped, command = texts
    profile = records.profile_record(operator=operator or "x", command=command)
    profile.device = artifacts.DeviceInfo("npu", "npu:0", model)
    profile.warnings = [warning]
    row = artifacts.DroppedRow(9, "noise", 1, dropped, dropped, "1", Decimal("1.5"))
    page = report.render(
        records.perf_record(profile, [(op or "x", core, 1, "1.5")], extra_dropped=[row], warnings=[warning])
    )
    prose = _without_code(page)
    assert "<script" not in prose
    assert not any(ord(character) < 32 and character != "\n" for character in page)
    cells = 0
    for line in page.splitlines():
        if line.startswith("|"):
            found = len(next(csv.reader(io.StringIO(line.replace("\\|", "")), delimiter="|", quoting=csv.QUOTE_NONE)))
            assert cells in (0, found), line
            cells = found
        else:
            cells = 0


def _without_code(page: str) -> str:
    """The page without fenced blocks and code spans, in which markup means nothing."""
    prose, fence = [], ""
    for line in page.splitlines():
        mark = re.match("`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif mark:
            fence = mark[0]
        else:
            prose.append(line.replace("\\`", ""))
    return re.sub(r"(`+)[^`].*?(?<!`)\1(?!`)", "", "\n".join(prose))


def test_the_example_of_these_tests_is_read(tmp_path: Path) -> None:
    trace = build(GOLDENS[GOLDEN], 3, restores=1)
    assert read(captured(tmp_path / "case")) == sorted(trace.golden_us(k) for k in range(3))[1]
