"""kernel_details.csv and op_summary_*.csv in every dialect: fixed ones by period, and random ones for hypothesis."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

UTF8_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Row:
    """One kernel as any dialect may write it; None is unknown."""

    name: str
    op: str | None
    core: str | None
    start_ns: int
    duration_us: Decimal
    shapes: str | None
    blocks: int | None
    step: int | None
    stream: str | None = "2"
    device: str | None = "0"


@dataclass(frozen=True)
class Dialect:
    """How a file says it; the column names are those of torch_npu, CANN and MindSpore releases."""

    step: str = "Step Id"  # "" : no such column
    device: str = "Device_id"
    name: str = "Name"
    op: str = "Type"
    core: str = "Accelerator Core"
    start: str = "Start Time(us)"
    duration: str = "Duration(us)"
    wait: str = "Wait Time(us)"
    blocks: str = "Block Dim"
    shapes: str = "Input Shapes"
    line_end: str = "\r\n"
    bom: bool = False
    tab: bool = True
    quote_stamps: bool = False
    trim_zeros: bool = False
    last_line_end: bool = True
    order: int = 0  # rotates the columns
    extra: tuple[str, ...] = ("Model ID", "Task ID", "OP State", "Output Shapes", "Context ID")

    def columns(self) -> list[str]:
        """The header, in the order of this dialect."""
        named = (self.step, self.device, self.name, self.op, self.core, self.start, self.duration, self.wait)
        names = [name for name in (*named, self.blocks, self.shapes, "Stream ID", *self.extra) if name]
        turn = self.order % len(names)
        return names[turn:] + names[:turn]

    def write(self, rows: list[Row]) -> bytes:
        """The file."""
        lines = [",".join(self.columns()), *(self._line(row) for row in rows)]
        text = self.line_end.join(lines) + (self.line_end if self.last_line_end else "")
        return (UTF8_BOM if self.bom else b"") + text.encode()

    def _line(self, row: Row) -> str:
        return ",".join(self._cell(column, row) for column in self.columns())

    def _cell(self, column: str, row: Row) -> str:
        if column == self.start:
            stamp = f"{row.start_ns // 1000}.{row.start_ns % 1000:03d}" + ("\t" if self.tab else "")
            return f'"{stamp}"' if self.quote_stamps else stamp
        if column == self.duration:
            return self._number(row.duration_us)
        if column == self.shapes:
            return _quoted(None if row.shapes is None else f'"{row.shapes}"')
        values: dict[str, Any] = {
            self.step: "" if row.step is None else row.step,
            self.device: row.device,
            self.name: row.name,
            self.op: row.op,
            self.core: row.core,
            self.wait: "0",
            self.blocks: row.blocks,
            "Stream ID": row.stream,
        }
        return _quoted(values.get(column))

    def _number(self, value: Decimal) -> str:
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if self.trim_zeros and "." in text else text


def _quoted(value: Any) -> str:
    """A cell as csv.writer writes it: quotes are doubled where there are any."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(["N/A" if value is None else value])
    return text.getvalue()


# By period, as the sources and real captures have them.
FIXED: dict[str, Dialect] = {
    "mid 2023, no unit": Dialect(device="", start="Start Time", tab=False, line_end="\n"),
    "2023, no tab, trimmed": Dialect(device="", tab=False, trim_zeros=True, line_end="\n", extra=("HF32 Eligible",)),
    "Level0 until May 2025": Dialect(device="", shapes="", extra=()),
    "Level0 7.1 to 7.3": Dialect(shapes="", extra=()),
    "Level0 26": Dialect(shapes="", blocks="Block Num", extra=()),
    "Level0 26 with shapes": Dialect(blocks="Block Num", extra=("Mix Block Num", "Input Data Types", "Output Shapes")),
    "Level1 without metrics until 7.3": Dialect(device="", shapes="", extra=()),
    "Level1 A2, CANN 8.0, quoted stamps": Dialect(device="", quote_stamps=True, trim_zeros=True, line_end="\n"),
    "Level1 A2, CANN 8.3": Dialect(),
    "Level1 A2, CANN 9": Dialect(blocks="Block Num"),
    "NPU activity alone": Dialect(step=""),
    "MindSpore": Dialect(step="Step ID"),
    "saved by a spreadsheet": Dialect(bom=True, tab=False),
    "op_summary": Dialect(
        step="",
        device="Device_id",
        name="Op Name",
        op="OP Type",
        core="Task Type",
        start="Task Start Time(us)",
        duration="Task Duration(us)",
        wait="Task Wait Time(us)",
        blocks="Block Num",
    ),
    "op_summary 2023": Dialect(step="", name="Op Name", op="OP Type", core="Task Type", duration="Task Duration(us)"),
}

_NAME_CHARACTERS = st.characters(codec="utf-8", exclude_characters='\r\n\t\0"', exclude_categories=("C", "Z"))
_NAMES = st.text(_NAME_CHARACTERS, min_size=1, max_size=20).filter(lambda name: name != "N/A")
_SHAPES = st.lists(st.lists(st.integers(0, 10**6), max_size=4), max_size=3).map(
    lambda shapes: ";".join(",".join(map(str, shape)) for shape in shapes)
)
_DURATIONS = st.integers(0, 10**11).flatmap(
    lambda n: st.integers(0, 6).map(lambda decimals: Decimal(n).scaleb(-decimals))
)
ROWS = st.lists(
    st.builds(
        Row,
        name=_NAMES,
        op=st.none() | _NAMES,
        core=st.sampled_from(["AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "AI_CPU", "HCCL", None]),
        start_ns=st.integers(1_600_000_000_000_000_000, 1_900_000_000_000_000_000),
        duration_us=_DURATIONS,
        shapes=st.none() | _SHAPES,
        blocks=st.none() | st.integers(0, 48),
        step=st.none() | st.integers(0, 100),
        stream=st.none() | st.integers(0, 9).map(str),
        device=st.sampled_from(["0", "4"]),
    ),
    min_size=1,
    max_size=12,
)
DIALECTS = st.builds(
    Dialect,
    step=st.sampled_from(["", "Step Id", "Step ID"]),
    device=st.sampled_from(["", "Device_id"]),
    name=st.sampled_from(["Name", "Op Name"]),
    op=st.sampled_from(["Type", "OP Type"]),
    core=st.sampled_from(["Accelerator Core", "Task Type"]),
    start=st.sampled_from(["Start Time(us)", "Task Start Time(us)", "Start Time"]),
    duration=st.sampled_from(["Duration(us)", "Task Duration(us)"]),
    wait=st.sampled_from(["", "Wait Time(us)", "Task Wait Time(us)"]),
    blocks=st.sampled_from(["", "Block Dim", "Block Num"]),
    shapes=st.sampled_from(["", "Input Shapes"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
    tab=st.booleans(),
    quote_stamps=st.booleans(),
    trim_zeros=st.booleans(),
    last_line_end=st.booleans(),
    order=st.integers(0, 20),
    extra=st.sampled_from([(), ("Model ID",), ("OP State", "Output Shapes", "cube_utilization(%)")]),
)
