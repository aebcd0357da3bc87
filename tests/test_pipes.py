"""Shares of the pipes from the PipeUtilization columns of every generation of chips."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from scripts import kernel_table, pipes
from scripts.artifacts import PipeRow

BASE = {
    "Name": "K",
    "Type": "K",
    "Start Time(us)": "1",
    "Duration(us)": "10",
    "Wait Time(us)": "2.5",
    "Block Dim": "20",
}


def pipe_row(folder: Path, *rows: dict[str, str], divisor: int = 1) -> PipeRow:
    columns = list(BASE | rows[0])
    lines = [",".join(columns), *(",".join((BASE | row)[column] for column in columns) for row in rows)]
    (folder / "kernel_details.csv").write_text("\n".join(lines) + "\n")
    table = kernel_table.read(folder / "kernel_details.csv", "kernel_details")
    every = np.arange(len(table))
    return pipes.pipe_row(table, "K", "AI_CORE", every, every, divisor)


def test_a_matmul_on_a2_is_bound_by_its_cube(tmp_path: Path) -> None:
    row = {"aicore_time(us)": "100", "aic_mac_time(us)": "82.5", "aic_mte2_time(us)": "40", "aic_fixpipe_time(us)": "3"}
    row |= {"aiv_time(us)": "0", "aiv_vec_time(us)": "0", "aiv_mte2_time(us)": "0"}
    found = pipe_row(tmp_path, row)
    assert found.shares == {"cube": 0.825, "mte2": 0.4, "fixpipe": 0.03}
    assert (found.bound, found.blocks) == ("cube", 20)


def test_shares_are_sums_over_launches_not_means_of_ratios(tmp_path: Path) -> None:
    row = {"aiv_time(us)": "10", "aiv_vec_time(us)": "9"}
    found = pipe_row(tmp_path, row, row | {"aiv_time(us)": "90", "aiv_vec_time(us)": "1"})
    assert found.shares == {"vector": 0.1}
    assert found.bound == "unknown"  # no pipe is busy for half of the time


def test_a_mixed_kernel_counts_each_pipe_over_the_cores_that_have_it(tmp_path: Path) -> None:
    row = {"aicore_time(us)": "100", "aic_mac_time(us)": "60", "aic_mte2_time(us)": "30"}
    row |= {"aiv_time(us)": "50", "aiv_vec_time(us)": "45", "aiv_mte2_time(us)": "15"}
    found = pipe_row(tmp_path, row)
    assert found.shares == {"cube": 0.6, "vector": 0.9, "mte2": 0.3}
    assert found.bound == "vector"


def test_a5_has_mte3_on_the_cube_side(tmp_path: Path) -> None:
    found = pipe_row(tmp_path, {"aicore_time(us)": "10", "aic_mte3_time(us)": "8"})
    assert (found.shares, found.bound) == ({"mte3": 0.8}, "mte3")


def test_older_chips_have_no_prefix(tmp_path: Path) -> None:
    row = {"aicore_time(us)": "20", "vec_time(us)": "12", "mac_time(us)": "1", "scalar_time(us)": "4"}
    found = pipe_row(tmp_path, row)
    assert found.shares == {"cube": 0.05, "vector": 0.6, "scalar": 0.2}


def test_unknown_counters_are_left_out_and_not_zero(tmp_path: Path) -> None:
    row = {"aiv_time(us)": "10", "aiv_vec_time(us)": "5"}
    found = pipe_row(tmp_path, row, {"aiv_time(us)": "N/A", "aiv_vec_time(us)": "N/A"})
    assert found.shares == {"vector": 0.5}


@pytest.mark.parametrize("cell", ["N/A", "0.0"])
def test_without_core_time_there_are_no_shares(cell: str, tmp_path: Path) -> None:
    found = pipe_row(tmp_path, {"aicore_time(us)": cell, "aic_mac_time(us)": cell})
    assert (found.shares, found.bound) == ({}, "unknown")


def test_blocks_are_the_most_of_any_launch_and_zero_is_unknown(tmp_path: Path) -> None:
    row = {"aicore_time(us)": "1"}
    assert pipe_row(tmp_path, row | {"Block Dim": "8"}, row | {"Block Dim": "40"}).blocks == 40
    assert pipe_row(tmp_path, row | {"Block Dim": "0"}).blocks is None
    assert pipe_row(tmp_path, row | {"Block Dim": "N/A"}).blocks is None


def test_waits_are_per_iteration(tmp_path: Path) -> None:
    row = {"aicore_time(us)": "1"}
    assert pipe_row(tmp_path, row, row | {"Wait Time(us)": "N/A"}, divisor=2).wait_us == Decimal("1.25")
