"""The roofline of an operator as one self-contained SVG: rates of its cases under what the device can do.

Both axes are logarithmic: FLOP per byte to the right, TFLOP/s upwards. The slope is the measured copy, the ceiling the
measured matrix product, one pair per dtype.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts import artifacts
from scripts.formatting import TEMPLATES
from scripts.work import Work

if TYPE_CHECKING:
    from jinja2 import Template

WIDTH, HEIGHT = 720, 460
LEFT, RIGHT, TOP, BOTTOM = 76, 700, 48, 396  # of the plotting area
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # told apart by colour-blind readers, too


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from 10^low to 10^high, drawn from pixel `start` to `end`."""

    low: int
    high: int
    start: float
    end: float

    def at(self, value: float) -> float:
        """Pixel of a value."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Pixel and label of every power of ten."""
        return [(self.at(10.0**power), f"{10.0**power:g}") for power in range(self.low, self.high + 1)]

    @classmethod
    def over(cls, values: Iterable[float], start: float, end: float) -> Axis:
        """The axis of whole decades that holds `values`."""
        logs = [math.log10(value) for value in values] or [0.0]
        low, high = math.floor(min(logs)), math.ceil(max(logs))
        return cls(low, max(high, low + 1), start, end)


@dataclass(frozen=True)
class Place:
    """Where a case stands."""

    case: str
    dtype: str
    intensity: float  # FLOP per byte
    tflops: float
    gbps: float


@dataclass(frozen=True)
class Limits:
    """What the device can do in one dtype."""

    tflops: float
    gbps: float

    @property
    def ridge(self) -> float:
        """FLOP per byte at which both limits meet."""
        return self.tflops / self.gbps * 1e3


@dataclass(frozen=True)
class Point:
    """One case, in pixels."""

    x: float
    y: float
    colour: str
    label: str
    title: str  # shown on hovering


@dataclass(frozen=True)
class Roof:
    """The limits in one dtype, in pixels."""

    points: str  # of a polyline
    colour: str
    label: str
    label_y: float


def write(operator: str, works: Sequence[Work], target: Path) -> None:
    """Write the SVG of `operator` to `target`."""
    artifacts.write_bytes(target, render(operator, works).encode())


def render(operator: str, works: Sequence[Work]) -> str:
    """The SVG. A case without FLOPs or bytes has no place in it and is named below."""
    placed = [
        Place(work.case, work.dtype, work.intensity, work.tflops, work.gbps)
        for work in works
        if work.intensity and work.tflops and work.gbps
    ]
    names = {place.case for place in placed}
    limits = {
        work.dtype: Limits(work.peak_tflops, work.peak_gbps)
        for work in works
        if work.case in names and work.peak_tflops and work.peak_gbps
    }
    x = Axis.over([*(place.intensity for place in placed), *(limit.ridge for limit in limits.values())], LEFT, RIGHT)
    y = Axis.over([*(place.tflops for place in placed), *(limit.tflops for limit in limits.values())], BOTTOM, TOP)
    dtypes = dict.fromkeys(place.dtype for place in placed)
    colours = {dtype: COLOURS[k % len(COLOURS)] for k, dtype in enumerate(dtypes)}
    return _template().render(
        width=WIDTH,
        height=HEIGHT,
        area=(LEFT, RIGHT, TOP, BOTTOM),
        operator=operator,
        x=x,
        y=y,
        points=[_point(place, x, y, colours[place.dtype]) for place in placed],
        roofs=[_roof(dtype, limit, x, y, colours[dtype]) for dtype, limit in limits.items()],
        left_out=", ".join(work.case for work in works if work.case not in names),
        peaks_known=bool(limits),
    )


def _point(place: Place, x: Axis, y: Axis, colour: str) -> Point:
    rates = f"{place.intensity:.3g} FLOP/byte, {place.tflops:.3g} TFLOP/s, {place.gbps:.3g} GB/s"
    return Point(x.at(place.intensity), y.at(place.tflops), colour, place.case, f"{place.case}: {rates}")


def _roof(dtype: str, limit: Limits, x: Axis, y: Axis, colour: str) -> Roof:
    first = max(10.0**x.low, 10.0**y.low / limit.gbps * 1e3)  # where the slope enters the picture
    corners = [(first, first * limit.gbps / 1e3), (limit.ridge, limit.tflops), (10.0**x.high, limit.tflops)]
    points = " ".join(f"{x.at(intensity)},{y.at(rate)}" for intensity, rate in corners)
    label = f"{dtype}: {limit.tflops:.3g} TFLOP/s, {limit.gbps:.3g} GB/s"
    return Roof(points, colour, label, y.at(limit.tflops) - 5)


@functools.cache
def _template() -> Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("roofline.svg.j2")
