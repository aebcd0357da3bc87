"""The work of a call against what the device can do: the section of reports, from perf.json and peaks.json alone.

Achieved rates divide by the E2E, the device total. A share is of the device's own measured peak: the fastest matrix
product and the fastest copy in the dtype that most of the floating-point inputs have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scripts.artifacts import PerfRecord
from scripts.formatting import percent, us
from scripts.peaks import Peak, PeaksRecord, dtype_of

MARGIN = 1.02  # a peak is a measurement, too
AGAIN = "`snakemake -j1 peaks --forcerun device_peaks`"
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Work:
    """One case's work and rates; None where it is not known."""

    case: str
    dtype: str  # whose peak it is held against
    flops: int | None
    bytes_moved: int | None
    tflops: float | None
    gbps: float | None
    intensity: float | None  # FLOP per byte
    peak_tflops: float | None
    peak_gbps: float | None

    @property
    def compute_share(self) -> float | None:
        """Of the peak of matrix products."""
        return self.tflops / self.peak_tflops if self.tflops and self.peak_tflops else None

    @property
    def memory_share(self) -> float | None:
        """Of the peak of copies."""
        return self.gbps / self.peak_gbps if self.gbps and self.peak_gbps else None


@dataclass(frozen=True)
class WorkLine:
    """One line of the table, as printed."""

    case: str
    flops: str
    nbytes: str
    intensity: str
    tflops: str
    compute_share: str
    gbps: str
    memory_share: str


@dataclass(frozen=True)
class WorkSection:
    """The section, as printed."""

    lines: list[WorkLine]
    notes: list[str]


def work_of(perf: PerfRecord, peaks: PeaksRecord | None) -> Work:
    """The work of one case; `peaks` are those of the device that it was measured on."""
    profile, seconds = perf.profile, float(perf.e2e_us) / 1e6
    flops, nbytes = profile.flops, profile.bytes_moved
    dtype = dtype_of(profile.inputs)
    peak = peaks.of(dtype) if peaks else None
    return Work(
        case=profile.case,
        dtype=dtype,
        flops=flops,
        bytes_moved=nbytes,
        tflops=flops / seconds / 1e12 if flops else None,
        gbps=nbytes / seconds / 1e9 if nbytes else None,
        intensity=flops / nbytes if flops and nbytes else None,
        peak_tflops=peak.tflops if peak else None,
        peak_gbps=(peak.gbps if peak else None) or (peaks.gbps if peaks else None),
    )


def section(works: Sequence[Work], peaks: Sequence[PeaksRecord]) -> WorkSection:
    """The section over some cases; `peaks` are those of their devices, [] when none was measured."""
    notes = [
        "FLOPs: counted in one call, of matmul-like operators only (matrix products, convolutions, attention), so a "
        "lower bound; – where there are none or they could not be counted.",
        "Bytes: all inputs read once and all results written once; not the traffic between the golden's own operators.",
        "Rates: that work over the E2E, the sum of the golden's kernel durations.",
        *_peak_notes(works, peaks),
    ]
    flags = [flag for work in works for flag in _flags(work)]
    return WorkSection([_line(work) for work in works], [*notes, *flags])


def cache_note(perf: PerfRecord, peaks: PeaksRecord | None) -> str:
    """What is known of the cache that a golden finds: whether the flush was seen to work on this device."""
    if perf.profile.cache != "cold" or not perf.profile.noise.types:
        return "Cache: not flushed between iterations"
    check = peaks.cache if peaks else None
    if peaks and peaks.problem:
        return f"Cache: flushed before every iteration; not verified on this device: {peaks.problem}"
    if check is None:
        return "Cache: flushed before every iteration; not verified on this device (`snakemake -j1 peaks` does it)"
    tried = f"a copy of {check.copy_bytes / 2**20:g} MiB after a flush of {check.flush_mib:g} MiB"
    if check.flushes is None or check.cold is None or check.warm is None:
        return f"Cache: flushed before every iteration; {tried} could not show that it works here: {check.reason}"
    times = f"{us(check.cold.median_us, 1)} against {us(check.warm.median_us, 1)} without"
    if not check.flushes:
        return f"Cache: the flush does nothing on this device: {tried} takes {times}; read `cold` as `warm`"
    smaller = ""
    if perf.profile.noise.mib < check.flush_mib:
        smaller = f"; this case flushes with {perf.profile.noise.mib:g} MiB only"
    return f"Cache: the flush works on this device: {tried} takes {times}{smaller}"


def _peak_notes(works: Sequence[Work], peaks: Sequence[PeaksRecord]) -> list[str]:
    if not peaks:
        return [
            "Peak: not measured on this device; `snakemake -j1 peaks` does it, and the next report shows the shares."
        ]
    dtypes = dict.fromkeys(work.dtype for work in works if work.dtype)
    problems = [
        f"Peak: could not be measured on {record.device.name}: {record.problem} ({AGAIN} tries again)"
        for record in peaks
        if record.problem
    ]
    return problems + [
        _peak_note(record, peak) for record in peaks for dtype in dtypes if (peak := record.of(dtype)) is not None
    ]


def _peak_note(record: PeaksRecord, peak: Peak) -> str:
    parts = []
    if peak.tflops:
        parts.append(f"{_three(peak.tflops)} TFLOP/s (matrix product of size {peak.matmul_size})")
    if peak.gbps:
        parts.append(f"{_three(peak.gbps)} GB/s (copy of {peak.copy_bytes // 2 / 2**20:g} MiB)")
    found = " and ".join(parts) or f"none: {peak.problem}"
    busy = f", host load {record.load_1min}" if record.device.kind == "cpu" else ""
    return f"Peak of {peak.dtype} on {record.device.model}: {found}, measured {record.measured_at[:10]}{busy}."


def _flags(work: Work) -> list[str]:
    flags = []
    if work.compute_share and work.compute_share > MARGIN:
        flags.append(
            f"ABOVE THE PEAK: {work.case} reaches {percent(work.compute_share)} of the measured {work.dtype} matrix "
            f"product. Either it computes in another dtype than {work.dtype}, or the peak was measured on a busy "
            f"device ({AGAIN} measures it again), or the time is too short to be true."
        )
    if work.memory_share and work.memory_share > MARGIN:
        flags.append(
            f"ABOVE THE PEAK: {work.case} moves its bytes at {percent(work.memory_share)} of the measured copy. Either "
            "it does not read all of its inputs, or a cache held them, or the peak was measured on a busy device "
            f"({AGAIN} measures it again), or the time is too short to be true."
        )
    return flags


def _line(work: Work) -> WorkLine:
    return WorkLine(
        case=work.case,
        flops=_si(work.flops, "FLOP") if work.flops else "–",
        nbytes=_si(work.bytes_moved, "B") if work.bytes_moved else "–",
        intensity=_three(work.intensity) if work.intensity else "–",
        tflops=_three(work.tflops) if work.tflops else "–",
        compute_share=_share(work.compute_share),
        gbps=_three(work.gbps) if work.gbps else "–",
        memory_share=_share(work.memory_share),
    )


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    return percent(share) + (" (above)" if share > MARGIN else "")


def _si(value: int, unit: str) -> str:
    scale, prefix = next(((scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (1, ""))
    return f"{_three(value / scale)} {prefix}{unit}"


def _three(value: float) -> str:
    """Three digits, never in powers of ten from 0.0001 on."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
