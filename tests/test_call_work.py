"""FLOPs and bytes of a call, against what can be worked out by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from scripts.artifacts import Noise
from scripts.call_work import bytes_moved, count_flops
from scripts.devices.cpu import CpuDevice
from scripts.devices.identity import resolve
from scripts.measure import GoldenCrash, Measurement, prepare

ROOT = Path(__file__).resolve().parent.parent
A, B = torch.ones(8, 16), torch.ones(16, 4)
Q = torch.ones(2, 4, 32, 16)


@pytest.mark.parametrize(
    ("call", "flops"),
    [
        (lambda: A @ B, 2 * 8 * 16 * 4),
        (lambda: torch.einsum("bhsd,bhtd->bhst", Q, Q), 2 * 8 * 32 * 32 * 16),
        (lambda: A @ B[:, 0], 2 * 8 * 16),
        (lambda: torch.dot(A[0], A[1]), 2 * 16),
        (lambda: torch.addmv(A[:, 0], A, B[:, 0]), 2 * 8 * 16),
        (lambda: torch._int_mm(torch.ones(32, 16).char(), torch.ones(16, 8).char()), 2 * 32 * 16 * 8),
        (lambda: F.linear(A.bfloat16(), B.t().contiguous().bfloat16()), 2 * 8 * 16 * 4),
        (lambda: F.scaled_dot_product_attention(Q, Q, Q), 2 * (2 * 8 * 32 * 32 * 16)),
        (lambda: A + A, 0),
        (lambda: A.softmax(-1), 0),
    ],
)
def test_flops_are_those_of_matmul_like_operators(call: Callable[[], torch.Tensor], flops: int) -> None:
    result, counted = count_flops(call)
    assert counted == flops
    assert torch.equal(result, call())


@pytest.mark.parametrize(
    "call",
    [
        lambda: F.conv2d(torch.ones(2, 3, 16, 16), torch.ones(8, 3, 3, 3)),
        lambda: torch.nn.MultiheadAttention(32, 4)(*[torch.ones(8, 2, 32)] * 3),
        lambda: torch.baddbmm(torch.ones(2, 8, 8), torch.ones(2, 8, 4), torch.ones(2, 4, 8)),
    ],
)
def test_flops_are_those_that_torchs_own_counter_sees(call: Callable[[], object]) -> None:
    with torch.no_grad(), FlopCounterMode(display=False) as theirs:
        call()
    with torch.no_grad():
        _, ours = count_flops(call)
    assert ours == theirs.get_total_flops() > 0


def test_counting_does_not_load_the_compiler() -> None:
    program = (
        "import sys, torch; from scripts.call_work import count_flops; count_flops(lambda: torch.ones(2, 2) * 2); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_bytes_are_the_inputs_read_once_and_the_results_written_once() -> None:
    x, out = torch.zeros(10, 10), torch.zeros(5)
    assert bytes_moved([x], [out], []) == 400 + 20
    assert bytes_moved([x, x], [out], []) == 400 + 20, "one tensor given twice is read once"
    assert bytes_moved([x], [x[:3]], []) == 400, "a view of an input is not written"
    assert bytes_moved([x], [x], [x]) == 800, "a mutated input is read and written"
    assert bytes_moved([x[0].expand(1000, 10)], [out], []) == 400 + 20, "expanded, no larger than its memory"
    assert bytes_moved([x[:5], x[5:]], [], []) == 400, "two halves of one memory"
    assert bytes_moved([x.to_sparse()], [], []) is None


def measured(golden: Callable[..., object], *args: torch.Tensor) -> Measurement:
    noise = Noise(0.01, (4099,), "float32", ("aten::max",))
    return prepare(CpuDevice(resolve("cpu")), golden, args, {}, [], noise)


def test_work_is_counted_in_a_call_of_its_own_after_the_first() -> None:
    calls = []

    def golden(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x @ x

    found = measured(golden, torch.ones(8, 8))
    found.check()
    assert (found.flops, len(calls)) == (None, 1)
    found.count_flops()
    assert (found.flops, found.bytes_moved, len(calls)) == (2 * 8**3, 2 * 8 * 8 * 4, 2)


def test_a_golden_that_cannot_run_under_the_counter_is_measured_without_flops_and_its_inputs_are_restored() -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    def golden(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        if _get_current_dispatch_mode() is not None:
            raise RuntimeError("not under a mode")
        return x * 2

    x = torch.zeros(4)
    found = measured(golden, x)
    found.check()
    found.count_flops()
    assert found.flops is None
    found.warm_up(1)
    assert torch.equal(x, torch.ones(4)), "mutated once, not three times"
    assert list(found.pristine) == ["args[0]"]


def test_a_golden_that_fails_is_called_once() -> None:
    """A device that has refused a launch may drop the next ones in silence: a second call would seem to work."""
    calls = []

    def golden(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("launch refused")
        return x

    with pytest.raises(GoldenCrash, match="launch refused"):
        measured(golden, torch.ones(1)).check()
    assert len(calls) == 1


def test_a_golden_that_always_fails_still_fails() -> None:
    def golden(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    with pytest.raises(GoldenCrash, match=r"ValueError in the first call \(\S*test_call_work.py:\d+\): no"):
        measured(golden, torch.ones(1)).check()
