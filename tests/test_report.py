"""The report of a case and of an operator: the fixed layout to the letter, exact sums, nothing unescaped."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts import artifacts, assignment, operator_report, report
from scripts.artifacts import CrossCheck, DeviceInfo, DroppedRow, Noise, PipeRow, TensorInfo
from scripts.call_text import dtypes, shapes
from scripts.errors import ArtifactError, CaseFailure
from scripts.formatting import code, code_block, column_us, decimals_of, link, md, prose, us
from scripts.status import Status
from tests.records import OPS, perf_record, profile_record, spread

EXPECTED = Path(__file__).parent / "expected"
SEED_OPS = (("MatMulV2", "AI_CORE", 2, "90.4"), ("SoftmaxV2", "AI_VECTOR_CORE", 1, "32.1"), ("Add", "", 4, "122.8"))
SEED_HEAD = """\
# attention Golden NPU Performance Report

- **Device**: npu:0
- **Timestamp**: 2026-06-09T10:00:00.000000+00:00
- **Iterations**: 1

## Performance Summary

| case | Input Shape | dtype | E2E (us) |
|------|-------------|-------|----------|
| perf_p0_small | {q: (2, 8, 512, 64), k: (2, 8, 512, 64), v: (2, 8, 512, 64)} | \
{q: torch.bfloat16, k: torch.bfloat16, v: torch.bfloat16} | 245.3us |

## Case: perf_p0_small

- **Input Shape**: {q: (2, 8, 512, 64), k: (2, 8, 512, 64), v: (2, 8, 512, 64)}
- **dtype**: {q: torch.bfloat16, k: torch.bfloat16, v: torch.bfloat16}
- **Profiling Data**: `prof/attention_golden/perf_p0_small/0123456789abcdef/`

### E2E Performance

**Total kernel duration**: 245.3us (total - noise)
- Cross-check (Σ per-op total): 245.3us
"""
SEED_TABLE = """\
### Op Performance

| op | count | mean_duration | total |
|----|-------|---------------|-------|
| Add | 4 | 30.7us | 122.8us |
| MatMulV2 | 2 | 45.2us | 90.4us |
| SoftmaxV2 | 1 | 32.1us | 32.1us |

## Notes
- Data source: `ASCEND_PROFILER_OUTPUT/kernel_details.csv`
- Noise ops (ReduceMax) filtered out"""
NASTY = "a|b `c` <script>alert(1)</script>\n# d [e](http://f) *g* &lt; \x1b[31m\u202e"


def section(text: str, heading: str) -> str:
    """The part of `text` under `heading`, up to the next heading of its rank or above."""
    rank = heading.count("#")
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{rank}}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading}"
    return found[1]


def table(text: str) -> list[list[str]]:
    """Cells of every body line of the first table in `text`."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def printed_e2e(text: str) -> Decimal:
    """The number after "Total kernel duration"."""
    found = re.search(r"\*\*Total kernel duration\*\*: ([\d.]+)us \(total - noise\)", text)
    assert found
    return Decimal(found[1])


# ---------------------------------------------------------------- layout


def test_seed_layout_comes_first_and_to_the_letter() -> None:
    text = report.render(perf_record(profile_record(iterations=1), ops=SEED_OPS, host_wall=spread("600")))
    assert text.startswith(SEED_HEAD)
    assert SEED_TABLE in text


def test_sections_stand_in_the_order_of_the_seed_and_then_ours() -> None:
    headings = re.findall(r"^##+ .*", report.render(perf_record()), re.MULTILINE)
    seed = ["## Performance Summary", "## Case: perf_p0_small", "### E2E Performance", "### Op Performance", "## Notes"]
    ours = [
        "Spread",
        "Work and limits",
        "Iterations",
        "Dropped rows",
        "Warnings",
        "Status",
        "Versions and environment",
        "How to reproduce",
    ]
    assert headings == seed + [f"## {name}" for name in ours]


@pytest.mark.parametrize("name", ["plain", "everything"])
def test_whole_report_is_as_reviewed(name: str) -> None:
    perf = {"plain": perf_record(), "everything": everything()}[name]
    assert report.render(perf) == (EXPECTED / f"report_{name}.md").read_text(encoding="utf-8")


def everything() -> Any:
    """A record with every optional part: stand-in, lists, scalars, restores, two cores of one op, pipes, warnings."""
    inputs = [
        TensorInfo("x", (4, 7168), "bfloat16", 57344),
        TensorInfo("kv[0]", (2, 8), "float32", 64),
        TensorInfo("kv[1]", (2, 8), "float32", 64),
        TensorInfo('state["m"]', (8,), "int8", 8),
    ]
    profile = profile_record(
        operator="adamw_step",
        case="smoke",
        iterations=4,
        device=DeviceInfo("npu", "npu:0", "Ascend910B3", stand_in=True),
        inputs=inputs,
        scalars={"causal": True, "lengths[0]": 3, "lengths[1]": 5, "mode": "a|b"},
        restored=["x", 'state["m"]'],
        warnings=["The clock moved during the run."],
    )
    shares = {"cube": 0.61, "vector": 0.0, "mte2": 0.25}
    ops = [("MatMulV2", "AI_CORE", 2, "90.4125"), ("MatMulV2", "MIX_AIC", 1, "12.5"), ("Cast", "AI_CPU", 1, "8")]
    return perf_record(
        profile,
        ops=ops,
        pipes=[
            PipeRow("MatMulV2", "AI_CORE", 24, shares, "cube", Decimal("1.25")),
            PipeRow("Cast", "AI_CPU", None, {}, "unknown", Decimal(0)),
        ],
        extra_dropped=[
            DroppedRow(1, "outside_steps", None, "MemSet", "MemSet_1", "8", Decimal("2.5")),
            DroppedRow(9, "restore", 1, "TensorMove", "TensorMove_1", "4,7168", Decimal("3.125")),
        ],
        cross_check=CrossCheck("", None, Decimal(0), None, "the capture has no op_statistic.csv"),
        host_wall=None,
        warnings=["The clock moved during the run.", "Spread of 12.0 % is over 10 %."],
    )


def test_stand_in_is_said_in_the_first_lines() -> None:
    head = report.render(everything()).splitlines()[:4]
    assert "NO HARDWARE" in head[2]
    assert "stand-in" in head[2]
    assert "made up" in "".join(head)
    assert "NO HARDWARE" not in report.render(perf_record())


@pytest.mark.parametrize(
    ("operator", "kind", "title"),
    [
        ("attention_golden", "cpu", "# attention Golden CPU Performance Report"),
        ("moe_gate", "cuda", "# moe_gate Golden CUDA Performance Report"),
        ("_golden", "npu", "# _golden Golden NPU Performance Report"),
    ],
)
def test_title_names_the_operator_and_the_true_device(operator: str, kind: str, title: str) -> None:
    profile = profile_record(operator=operator, device=DeviceInfo(kind, f"{kind}:0", "some model"))
    text = report.render(perf_record(profile))
    assert text.splitlines()[0] == title
    assert f"- **Device**: {kind}:0\n" in text


# ---------------------------------------------------------------- numbers

DURATIONS = st.decimals(Decimal("0.001"), 10**7, allow_nan=False, allow_infinity=False, places=9)
OP_TABLES = st.lists(
    st.tuples(st.text(max_size=8), st.sampled_from(["AI_CORE", "AI_CPU", ""]), st.integers(1, 99), DURATIONS),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(OP_TABLES, st.integers(0, 9), st.integers(1, 5))
def test_printed_op_totals_add_up_to_the_printed_e2e(ops: list[Any], places: int, iterations: int) -> None:
    exact = [(op, core, count, str(round(total, places) or 1)) for op, core, count, total in ops]
    text = report.render(perf_record(profile_record(iterations=iterations), ops=exact))
    totals = [Decimal(row[3].removesuffix("us")) for row in table(section(text, "### Op Performance"))]
    assert sum(totals) == printed_e2e(text)
    assert {total.as_tuple().exponent for total in totals} == {printed_e2e(text).as_tuple().exponent}
    assert len(totals) == len(ops)


@given(st.lists(st.decimals(0, 1000, places=9), min_size=1, max_size=40), st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_column_is_off_by_less_than_its_last_digit(values: list[Decimal], decimals: int) -> None:
    printed = [Decimal(text.removesuffix("us")) for text in column_us(values, decimals)]
    assert sum(printed) == round(sum(values), decimals)
    assert all(abs(ours - value) < Decimal(1).scaleb(-decimals) for ours, value in zip(printed, values, strict=True))


def test_durations_are_written_exactly_and_never_in_powers_of_ten() -> None:
    assert us(Decimal("1E+3")) == "1000.0us"
    assert us(Decimal("1E-6")) == "0.000001us"
    assert us(Decimal("245.300")) == "245.3us"
    assert decimals_of([Decimal("1.25"), Decimal(3)]) == 2
    assert decimals_of([]) == 1


def test_both_cores_of_one_op_type_are_told_apart() -> None:
    ops = [("MatMulV2", "AI_CORE", 1, "2"), ("MatMulV2", "MIX_AIC", 1, "1"), ("Cast", "AI_CPU", 1, "4")]
    rows = table(section(report.render(perf_record(ops=ops)), "### Op Performance"))
    assert [row[0] for row in rows] == ["Cast", "MatMulV2 (AI_CORE)", "MatMulV2 (MIX_AIC)"]


def test_three_times_and_the_profilers_cost_are_apart() -> None:
    text = section(report.render(perf_record()), "## Spread")
    assert [row[:3] for row in table(text)] == [
        ["Device total (E2E)", "3", "122.500us"],
        ["Device span", "3", "245.000us"],
        ["Host wall", "3", "301.500us"],
        ["Host wall with profiler", "3", "402.000us"],
    ]
    assert "50.0 % of it" in text
    assert "Profiler's cost: 100.5us of host time per call (33.3 % of the host wall)" in text


def test_a_device_time_longer_than_the_call_is_called_out() -> None:
    disturbed = report.render(perf_record(device_span=spread("71808.972")))
    assert "at work for 71808.972us (median) of a call that takes 301.5us without" in section(disturbed, "## Warnings")
    assert "> 1 warning: see" in disturbed
    assert "None." in section(report.render(perf_record(device_span=spread("330"))), "## Warnings")


@pytest.mark.parametrize(
    ("kind", "wall", "warned"), [("cpu", "10517", True), ("cpu", "1900", False), ("npu", "9e4", False)]
)
def test_work_that_the_profiler_does_not_see_on_the_cpu_is_called_out(kind: str, wall: str, warned: bool) -> None:
    profile = profile_record(device=DeviceInfo(kind, kind, "AMD EPYC"))
    text = report.render(perf_record(profile, device_span=spread("1000"), host_wall=spread(wall)))
    assert ("from its first kernel to its last 1000.0us" in section(text, "## Warnings")) is warned


def test_one_iteration_has_no_spread() -> None:
    perf = perf_record(profile_record(iterations=1))
    row = table(section(report.render(perf), "## Spread"))[0]
    assert row == ["Device total (E2E)", "1", "122.5us", "122.5us", "122.5us", "–", "–", "–", "0"]


def test_many_iterations_are_shown_by_their_ends() -> None:
    text = section(report.render(perf_record(profile_record(iterations=1001))), "## Iterations")
    numbers = [int(row[0]) for row in table(text)]
    assert numbers == [*range(12), *range(989, 1001)]
    assert "The 977 between them" in text


def test_dropped_rows_fit_a_screen_and_add_up() -> None:
    kinds = [DroppedRow(9, "before_noise", 1, f"Op{i}", f"Op{i}", str(i), Decimal(i) / 8) for i in range(1, 500)]
    perf = perf_record(extra_dropped=kinds)
    text = section(report.render(perf), "## Dropped rows")
    rows = table(text)
    assert len(text.splitlines()) < 30
    assert rows[0] == ["noise", "ReduceMax", "10240,12288", "3", "1200.750us"]
    assert "483 more kinds" not in rows[0][1]
    assert "484 more kinds" in rows[-1][1]
    assert sum(Decimal(row[4].removesuffix("us")) for row in rows) == perf.dropped_us
    assert sum(int(row[3]) for row in rows) == len(perf.dropped)


def test_no_dropped_row_is_said() -> None:
    perf = perf_record(dropped=[], dropped_us=Decimal(0), all_rows_us=Decimal("368.725"))
    text = report.render(perf)
    assert "None: every row" in section(text, "## Dropped rows")
    assert "Noise ops: none in the capture" in text


# ---------------------------------------------------------------- notes


def test_notes_tell_the_true_recipe() -> None:
    cold = report.render(perf_record(profile_record(noise=Noise(96.5, (1,), "float32", ("aten::max",)))))
    assert (
        "noise injection (96.5MiB randn + max, the buffer drawn once) → sync → golden call → sync; cold cache" in cold
    )
    profile = profile_record(cache="warm", noise=Noise(0.015, (4099,), "float32", ("ReduceMax",)), warmup=1)
    warm = report.render(perf_record(profile))
    assert "Each iteration: marker (max over 4099 float32 values, which flushes no cache)" in warm
    assert "warm cache; 1 warm-up call before" in warm
    assert "480" not in section(warm, "## Notes")
    mutating = report.render(perf_record(profile_record(restored=["p", "m"])))
    assert "Each iteration: restore of p, m → noise injection" in mutating
    foreign = report.render(perf_record(profile_record(noise=Noise(0, (), "", ()))))
    assert "without noise injection of this tool" in foreign


def test_notes_name_the_source_that_was_read() -> None:
    perf = perf_record()
    perf.output.source = f"{perf.output.profiler_dir}/ASCEND_PROFILER_OUTPUT/op_summary_2026.csv"
    assert "- Data source: `ASCEND_PROFILER_OUTPUT/op_summary_2026.csv`" in report.render(perf)


@pytest.mark.parametrize(
    ("agrees", "theirs", "words"),
    [
        (True, Decimal("1569.275"), "Cross-check (op_statistic.csv): 1569.275us there, 1569.275us here: agrees"),
        (None, None, "Cross-check (op_statistic.csv): not available: not written"),
    ],
)
def test_independent_cross_check_is_shown(agrees: bool | None, theirs: Decimal | None, words: str) -> None:
    check = CrossCheck("op_statistic.csv", agrees, Decimal("1569.275"), theirs, "" if agrees else "not written")
    assert words in report.render(perf_record(cross_check=check))


# ---------------------------------------------------------------- inputs


def tensor(name: str, *shape: int) -> TensorInfo:
    return TensorInfo(name, shape, "int8", 1)


@pytest.mark.parametrize(
    ("tensors", "scalars", "written"),
    [
        ([tensor("kv[0]", 2, 8), tensor("kv[1]", 2, 8)], {}, "{kv: [(2, 8), (2, 8)]}"),
        (
            [tensor("q", 8)],
            {"causal": True, "scale": 0.125, "bias": None},
            "{q: (8,), causal: True, scale: 0.125, bias: None}",
        ),
        ([tensor("args[0]"), tensor("args[2]", 3)], {"args[1]": 7}, "{args: [(), 7, (3,)]}"),
        ([tensor('s["m"]', 1), tensor('s["v"][0]', 2)], {}, "{s: {m: (1,), v: [(2,)]}}"),
        ([tensor('s["a]b"]', 1), tensor('s["c.d"]', 2)], {}, "{s: {a]b: (1,), c.d: (2,)}}"),
        ([tensor(f"w[{i}]", 4, 4) for i in range(64)], {}, "{w: [(4, 4) × 64]}"),
        ([], {f"n[{i}]": i for i in range(100)}, "{n: [0, 1, 2, 3, 4, 5, … 88 more …, 94, 95, 96, 97, 98, 99]}"),
        ([], {"text": "x" * 1000}, "{text: '" + "x" * 59 + "…}"),
        ([], {}, "{}"),
    ],
)
def test_shapes_show_lists_scalars_and_nesting(
    tensors: list[TensorInfo], scalars: dict[str, Any], written: str
) -> None:
    assert shapes(tensors, scalars) == written


def test_dtypes_are_torchs_and_scalars_have_their_types() -> None:
    tensors = [tensor("kv[0]", 2), tensor("kv[1]", 2)]
    assert dtypes(tensors, {"causal": True}) == "{kv: [torch.int8, torch.int8], causal: bool}"


@given(st.lists(st.text(max_size=20), max_size=6), st.lists(st.text(max_size=20), max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_name_can_be_written(tensors: list[str], scalars: list[str]) -> None:
    text = shapes([tensor(name, 1) for name in tensors], dict.fromkeys(scalars, 1))
    assert text.startswith("{")
    assert text.endswith("}")


# ---------------------------------------------------------------- escaping


def test_nothing_from_outside_reaches_the_page_as_markup() -> None:
    profile = profile_record(
        operator=NASTY,
        case=NASTY,
        started_at=NASTY,
        device=DeviceInfo(NASTY, NASTY, NASTY, NASTY, stand_in=True),
        inputs=[TensorInfo(NASTY, (1,), NASTY, 1)],
        scalars={NASTY + "2": NASTY},
        restored=[NASTY],
        versions={NASTY: NASTY},
        environment={NASTY: NASTY},
        settings={NASTY: NASTY},
        warnings=[NASTY],
    )
    perf = perf_record(
        profile,
        ops=[(NASTY, NASTY, 1, "1"), (NASTY, "", 1, "2")],
        pipes=[PipeRow(NASTY, NASTY, 1, {NASTY: 0.5}, NASTY, Decimal(1))],
        extra_dropped=[DroppedRow(1, NASTY, 1, NASTY, NASTY, NASTY, Decimal(1))],
        cross_check=CrossCheck(NASTY, None, Decimal(1), None, NASTY),
        attribution=NASTY,
    )
    text = report.render(perf)
    page = re.sub(r"^(```+)sh\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"(?<!\\)(`+).*?(?<!`)\1(?!`)", "", page)
    assert "<script" not in prose
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
    assert not re.search(r"(?<!\\)\]\(http", prose)
    assert len(re.findall(r"^#+ ", page, re.MULTILINE)) == len(
        re.findall(r"^#+ ", report.render(perf_record()), re.MULTILINE)
    )
    for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        assert len({len(re.split(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block
    text.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("aten::max_pool2d_", "aten::max_pool2d_"),
        ("a|b", r"a\|b"),
        ("`x`", r"\`x\`"),
        ("<b> & &amp;", "&lt;b> & &amp;amp;"),
        ("a\r\nb\tc", "a b c"),
        ("[x](y) [(1, 2)]", r"[x\](y) [(1, 2)]"),
        ("# no heading", r"\# no heading"),
        ("1. no list", r"1\. no list"),
        ("- no list", r"\- no list"),
        ("-0.5us", "-0.5us"),
        ("C:\\x", r"C:\\x"),
        ("\ud800", r"\\ud800"),
        ("", ""),
    ],
)
def test_text_is_escaped_only_where_it_would_mean_something(text: str, escaped: str) -> None:
    assert md(text) == escaped
    assert md(md(text)) == escaped


def test_links_survive_any_name() -> None:
    assert link("a[0] | b", "x y/(1)|é.md") == r"[a\[0\] \| b](x%20y/%281%29%7C%C3%A9.md)"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("`snakemake -j1 *` does *it*", r"`snakemake -j1 *` does \*it\*"),
        ("_a `b` c_", r"\_a `b` c\_"),
        ("one ` alone", r"one \` alone"),
        ("``two``", r"\`\`two\`\`"),
        ("`a` \ue000", "\\`a\\` \ue000"),
    ],
)
def test_what_a_sentence_has_between_backticks_is_code(text: str, written: str) -> None:
    assert prose(text) == written


def test_code_cannot_be_left_from_within() -> None:
    assert code("a`b") == "``a`b``"
    assert code("`a|`") == "`` `a|` ``"
    assert code_block("x\n```\ny", "sh") == "````sh\nx\n```\ny\n````"


# ---------------------------------------------------------------- refusals


def test_nothing_is_written_for_a_capture_without_ops(tmp_path: Path) -> None:
    artifacts.write(tmp_path / "perf.json", perf_record(ops=()))
    with pytest.raises(CaseFailure, match="nothing to report") as caught:
        report.run(tmp_path / "perf.json", tmp_path / "report.md")
    assert caught.value.status is Status.NO_KERNELS
    assert "noise" in caught.value.advice
    assert [path.name for path in tmp_path.iterdir()] == ["perf.json"]


def test_a_total_of_zero_is_refused() -> None:
    with pytest.raises(CaseFailure, match="0us in total"):
        report.render(perf_record(ops=[("Add", "AI_CORE", 1, "0")]))


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_only_an_ok_case_has_a_report(status: Status) -> None:
    with pytest.raises(CaseFailure) as caught:
        report.render(perf_record(status=status))
    assert caught.value.status is status


@pytest.mark.parametrize(
    ("field", "value", "claim"),
    [
        ("e2e_us", Decimal("122.4"), "op totals add up to the E2E"),
        ("all_rows_us", Decimal(1), "all rows less the dropped ones"),
        ("dropped", [], "dropped rows add up"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(field: str, value: Any, claim: str) -> None:
    perf = perf_record()
    setattr(perf, field, value)
    with pytest.raises(ArtifactError, match=claim):
        report.render(perf)


def test_an_e2e_that_is_not_the_median_is_refused() -> None:
    perf = perf_record()
    perf.iterations[0].device_total_us, perf.iterations[1].device_total_us = Decimal("121.3"), Decimal("122.475")
    with pytest.raises(ArtifactError, match="median over iterations"):
        report.render(perf)


def test_a_cross_check_that_disagrees_is_refused() -> None:
    check = CrossCheck("op_statistic.csv", False, Decimal(5), Decimal(7), "MatMulV2: 2 there, 1 here.")
    with pytest.raises(CaseFailure, match=r"says 7us where the kernels add up to 5us\. MatMulV2") as caught:
        report.render(perf_record(cross_check=check))
    assert caught.value.status is Status.INCOMPLETE


def test_a_damaged_file_leaves_the_old_report_alone(tmp_path: Path) -> None:
    (tmp_path / "perf.json").write_text('{"schema_version": 1, "kind": "perf"')
    (tmp_path / "report.md").write_text("old")
    with pytest.raises(ArtifactError, match=r"perf\.json"):
        report.run(tmp_path / "perf.json", tmp_path / "report.md")
    assert (tmp_path / "report.md").read_text() == "old"


def test_report_from_the_file_is_the_report_of_the_record(tmp_path: Path) -> None:
    artifacts.write(tmp_path / "perf.json", everything())
    report.run(tmp_path / "perf.json", tmp_path / "a/b/report.md")
    assert (tmp_path / "a/b/report.md").read_text(encoding="utf-8") == report.render(everything())


# ---------------------------------------------------------------- several cases


def two_cases() -> list[Any]:
    large = profile_record(
        case="perf_p0_large",
        started_at="2026-06-09T10:00:09.000000+00:00",
        inputs=[TensorInfo(name, (4, 16, 1024, 128), "bfloat16", 1) for name in "qkv"],
    )
    return [perf_record(), perf_record(large, ops=[*OPS, ("Mul", "AI_VECTOR_CORE", 1, "0.25")])]


def test_operator_report_has_one_summary_and_a_section_per_case() -> None:
    text = operator_report.render("attention_golden", two_cases())
    assert [row[0] for row in table(section(text, "## Performance Summary"))] == ["perf_p0_small", "perf_p0_large"]
    assert text.count("# attention Golden NPU Performance Report") == 1
    assert text.count("## Performance Summary") == text.count("## Notes") == 1
    for case, e2e, first in [("perf_p0_small", "122.5", "MatMulV2"), ("perf_p0_large", "122.75", "MatMulV2")]:
        part = section(text, f"## Case: {case}")
        assert f"`prof/attention_golden/{case}/0123456789abcdef/`" in part
        assert printed_e2e(part) == Decimal(e2e)
        assert table(part)[0][0] == first
    assert "- **Timestamp**: 2026-06-09T10:00:00.000000+00:00 to 2026-06-09T10:00:09.000000+00:00" in text


def test_whole_operator_report_is_as_reviewed() -> None:
    expected = (EXPECTED / "operator_report.md").read_text(encoding="utf-8")
    assert operator_report.render("attention_golden", two_cases()) == expected


def test_case_section_is_the_same_in_both_reports() -> None:
    one = report.render(perf_record())
    both = operator_report.render("attention_golden", two_cases())
    assert section(one, "## Case: perf_p0_small") == section(both, "## Case: perf_p0_small")


def test_cases_measured_differently_are_not_compared_silently() -> None:
    cases = two_cases()
    cases[1].profile.device = DeviceInfo("cpu", "cpu", "EPYC")
    cases[1].profile.versions["torch"] = "2.12.0"
    text = operator_report.render("attention_golden", cases)
    assert text.startswith("# attention Golden NPU/CPU Performance Report")
    assert "- **Device**: npu:0, cpu" in text
    found = section(text, "## Warnings")
    assert (
        "differ in device model, so their times are not comparable: perf_p0_small: Ascend910B3, perf_p0_large: EPYC"
        in found
    )
    assert "differ in torch, so" in found


def test_operator_report_refuses_strangers_and_nothing() -> None:
    with pytest.raises(ArtifactError, match="no case"):
        operator_report.render("attention_golden", [])
    with pytest.raises(ArtifactError, match="a case of attention_golden"):
        operator_report.render("softmax_golden", two_cases())


def test_operator_report_is_written_from_files(tmp_path: Path) -> None:
    paths = []
    for i, perf in enumerate(two_cases()):
        paths.append(tmp_path / f"{i}.json")
        artifacts.write(paths[-1], perf)
    operator_report.run("attention_golden", paths, tmp_path / "reports/attention_golden.md")
    expected = operator_report.render("attention_golden", two_cases())
    assert (tmp_path / "reports/attention_golden.md").read_text(encoding="utf-8") == expected


def test_the_legend_explains_every_rule_by_which_rows_are_dropped() -> None:
    assert set(report.RULES) == set(assignment.RULES) - {"golden"}
