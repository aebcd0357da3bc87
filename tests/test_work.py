"""Work and limits in reports: rates by hand, flags, the cache note, and the roofline."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import artifacts, operator_report, peaks, report, roofline, work
from scripts.artifacts import DeviceInfo, TensorInfo
from scripts.peaks import CacheCheck, Peak, PeaksRecord
from tests.records import perf_record, profile_record, spread

KEY = "0123456789ab-npu-1a2b3c4d"
SVG = "{http://www.w3.org/2000/svg}"
# 2 * 1000^3 FLOP in 10 us are 200 TFLOP/s; 10^6 B in 1 us are 1000 GB/s.
BF16 = Peak("bfloat16", 1000, spread("12", "10", "11"), 1_000_000, spread("2", "1", "1.5"))
CHECK = CacheCheck(2**20, 480.0, spread("57.1"), spread("8.3"), True, "")


def limits(**changes: object) -> PeaksRecord:
    record = PeaksRecord(
        DeviceInfo("npu", "npu:0", "Ascend910B3"),
        {"torch": "2.13.0"},
        "2026-06-09T10:00:00+00:00",
        [BF16],
        CHECK,
        "0.10",
    )
    return replace(record, **changes)


def perf(
    e2e: str = "100", flops: int | None = 4_000_000_000, nbytes: int | None = 20_000_000, case: str = "p0"
) -> object:
    profile = profile_record(case=case, key=KEY, flops=flops, bytes_moved=nbytes)
    return perf_record(profile, ops=[("MatMulV2", "AI_CORE", 1, e2e)])


def test_rates_are_work_over_e2e_and_shares_are_of_the_measured_peak() -> None:
    found = work.work_of(perf(), limits())
    assert found.tflops == pytest.approx(40)  # 4 GFLOP in 100 us
    assert found.gbps == pytest.approx(200)  # 20 MB in 100 us
    assert found.intensity == pytest.approx(200)
    assert found.compute_share == pytest.approx(0.2)  # of 200 TFLOP/s: the fastest product, not the median one
    assert found.memory_share == pytest.approx(0.2)


def test_a_report_shows_work_peaks_and_what_they_mean() -> None:
    text = report.render(perf(), limits())
    assert "| p0 | 4 GFLOP | 20 MB | 200 | 40 | 20.0 % | 200 | 20.0 % |" in text
    assert "Peak of bfloat16 on Ascend910B3: 200 TFLOP/s (matrix product of size 1000) and 1000 GB/s" in text
    assert "matmul-like operators only" in text
    assert "ABOVE" not in text


def test_a_result_above_the_peak_is_flagged_with_its_possible_reasons() -> None:
    text = report.render(perf(e2e="15"), limits())
    assert "133.3 % (above)" in text
    assert "ABOVE THE PEAK: p0 reaches 133.3 % of the measured bfloat16 matrix product." in text
    assert "ABOVE THE PEAK: p0 moves its bytes at 133.3 % of the measured copy." in text


def test_without_peaks_or_flops_nothing_is_made_up() -> None:
    text = report.render(perf(flops=0))
    assert "| p0 | – | 20 MB | – | – | – | 200 | – |" in text
    assert "Peak: not measured on this device" in text
    failed = limits(peaks=[], cache=None, problem="the process was killed")
    assert "Peak: could not be measured on npu:0: the process was killed" in report.render(perf(), failed)


def test_the_peak_is_that_of_the_dtype_that_most_of_the_inputs_have() -> None:
    tensors = [
        TensorInfo("x", (4,), "bfloat16", 8),
        TensorInfo("w", (9,), "float32", 36),
        TensorInfo("i", (99,), "int64", 792),
    ]
    assert peaks.dtype_of(tensors) == "float32"
    assert peaks.dtype_of(tensors[2:]) == ""


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (CHECK, "the flush works on this device: a copy of 1 MiB after a flush of 480 MiB takes 57.1us against 8.3us"),
        (replace(CHECK, flushes=False), "the flush does nothing on this device"),
        (replace(CHECK, flushes=None, reason="too noisy"), "could not show that it works here: too noisy"),
        (None, "not verified on this device"),
    ],
)
def test_the_notes_say_whether_the_flush_was_seen_to_work(check: CacheCheck | None, words: str) -> None:
    assert words in work.cache_note(perf(), limits(cache=check))


def test_a_warm_case_says_that_nothing_is_flushed() -> None:
    record = perf_record(profile_record(cache="warm"))
    assert work.cache_note(record, limits()) == "Cache: not flushed between iterations"


def test_a_smaller_flush_than_the_verified_one_is_named() -> None:
    record = perf()
    record.profile.noise = replace(record.profile.noise, mib=32.0)
    assert work.cache_note(record, limits()).endswith("this case flushes with 32 MiB only")


def test_reports_read_the_peaks_of_their_own_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    artifacts.write(tmp_path / "perf.json", perf())
    report.run(tmp_path / "perf.json", tmp_path / "without.md")
    artifacts.write(peaks.path_of(KEY), limits())
    artifacts.write(peaks.path_of("0123456789ab-npu-ffffffff"), limits(problem="another device"))
    report.run(tmp_path / "perf.json", tmp_path / "with.md")
    assert "20.0 %" not in (tmp_path / "without.md").read_text()
    assert (tmp_path / "with.md").read_text() == report.render(perf(), limits())


# ---------------------------------------------------------------- roofline


def works() -> list[work.Work]:
    return [work.work_of(perf(case="fast & <b>"), limits()), work.work_of(perf(flops=0, case="no_matmul"), limits())]


def test_the_roofline_is_one_self_contained_svg_with_every_case(tmp_path: Path) -> None:
    text = roofline.render("attention_golden", works())
    tree = ET.fromstring(text)
    assert tree.tag == f"{SVG}svg"
    assert len(tree.findall(f"{SVG}circle")) == 1
    assert [found.text for found in tree.findall(f"{SVG}circle/{SVG}title")] == [
        "fast & <b>: 200 FLOP/byte, 40 TFLOP/s, 200 GB/s"
    ]
    assert "Without FLOPs or bytes: no_matmul" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "nothing is loaded"


def test_points_lie_where_their_rates_are_under_the_roof() -> None:
    tree = ET.fromstring(roofline.render("op", works()))
    x, y = roofline.Axis(2, 3, roofline.LEFT, roofline.RIGHT), roofline.Axis(1, 3, roofline.BOTTOM, roofline.TOP)
    circle = tree.find(f"{SVG}circle")
    assert (float(circle.get("cx")), float(circle.get("cy"))) == (x.at(200), y.at(40))
    corners = [tuple(map(float, corner.split(","))) for corner in tree.find(f"{SVG}polyline").get("points").split()]
    assert corners == [(x.at(100), y.at(100)), (x.at(200), y.at(200)), (x.at(1000), y.at(200))]


def test_without_any_flops_or_peaks_the_picture_says_so() -> None:
    assert "No case has matmul-like FLOPs" in roofline.render("op", works()[1:])
    assert "peaks not measured" in roofline.render("op", [work.work_of(perf(), None)])
    assert roofline.render("op", [])


def test_an_operators_report_links_its_roofline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    artifacts.write(tmp_path / "perf.json", perf())
    operator_report.run("attention_golden", [tmp_path / "perf.json"], tmp_path / "reports/attention_golden.md")
    text = (tmp_path / "reports/attention_golden.md").read_text()
    assert "![Roofline](attention_golden.roofline.svg)" in text
    ET.parse(tmp_path / "reports/attention_golden.roofline.svg")
