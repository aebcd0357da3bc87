"""Diagnosis: every kind of failure gets its own cause and fix, and the block shows all that is needed to act."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts import diagnosis
from scripts.diagnosis import (
    diagnose_exception,
    diagnose_exit,
    diagnose_status,
    diagnose_timeout,
)
from scripts.status import Status
from tests.records import failure_record

# Messages as torch 2.13 and torch_npu write them.
EXCEPTIONS = [
    ("IndexError", "index out of range in self", "index"),
    ("IndexError", "index 10 is out of bounds for dimension 0 with size 3", "index"),
    ("RuntimeError", "index 7 is out of bounds for dimension 1 with size 4", "index"),
    ("torch.AcceleratorError", "CUDA error: device-side assert triggered", "index"),
    (
        "RuntimeError",
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        "shape",
    ),
    ("RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "shape"),
    ("RuntimeError", "shape '[2, 3]' is invalid for input of size 7", "shape"),
    ("RuntimeError", "Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3", "shape"),
    ("RuntimeError", "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1", "shape"),
    (
        "RuntimeError",
        "Expected all tensors to be on the same device, but found at least two devices, cpu and npu:0!",
        "device",
    ),
    ("RuntimeError", "expected m1 and m2 to have the same dtype, but got: float != c10::Half", "device"),
    ("RuntimeError", "\"addmm_impl_cpu_\" not implemented for 'Int'", "device"),
    ("RuntimeError", "CUDA error: no kernel image is available for execution on the device", "device"),
    ("RuntimeError", "ERR00100 PTA call acl api failed", "device"),
    ("RuntimeError", "NPU function error: aclnnMatmul, error code is 561103", "device"),
    ("NotImplementedError", "Could not run 'aten::x' with arguments from the 'NPU' backend", "device"),
    ("ValueError", "seq_len must be a multiple of 128", "precondition"),
    ("AssertionError", "", "precondition"),
    ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB", "memory"),
    ("RuntimeError", "NPU out of memory. Tried to allocate 2.00 GiB", "memory"),
    ("RuntimeError", "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory", "memory"),
    ("MemoryError", "", "memory"),
    ("TypeError", "attention_golden() missing 1 required positional argument: 'k'", "arguments"),
    ("ModuleNotFoundError", "No module named 'flash_attn'", "import"),
    ("TypeError", "'NoneType' object is not subscriptable", "other"),
    ("KeyError", "'q'", "other"),
    ("RuntimeError", "something new", "other"),
    ("my.package.OddError", "boom", "other"),
]


@pytest.mark.parametrize(("type_name", "message", "kind"), EXCEPTIONS)
def test_exception_gets_the_advice_of_its_class(type_name: str, message: str, kind: str) -> None:
    assert diagnose_exception(type_name, message).kind == kind


def test_kinds_differ_in_cause_and_fix() -> None:
    found = {diagnose_exception(name, message) for name, message, _ in EXCEPTIONS}
    assert len(found) == len({advice.cause for advice in found}) == len({advice.fix for advice in found}) == 8


@pytest.mark.parametrize(
    ("type_name", "message", "words"),
    [
        ("IndexError", "index out of range in self", ["used as an index", "randint(", "_make_inputs"]),
        ("RuntimeError", "shapes cannot be multiplied", ["depend on each other", "base sizes", "_make_inputs"]),
        ("RuntimeError", "CUDA error: x", ["dtype", "one device"]),
        ("ValueError", "x", ["checks its arguments", "satisfy it"]),
        ("Whatever", "x", ["Read the golden", "_make_inputs"]),
    ],
)
def test_the_five_classes_say_what_to_do(type_name: str, message: str, words: list[str]) -> None:
    text = str(diagnose_exception(type_name, message))
    assert [word for word in words if word not in text] == []


@given(st.text(max_size=40), st.text(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_exception_has_advice(type_name: str, message: str) -> None:
    advice = diagnose_exception(type_name, message)
    assert advice.cause
    assert advice.fix


@pytest.mark.parametrize(
    ("return_code", "kind", "words"),
    [
        (-signal.SIGSEGV, "signal", ["SIGSEGV", "native code"]),
        (-signal.SIGABRT, "signal", ["SIGABRT", "native code"]),
        (-signal.SIGKILL, "signal", ["SIGKILL", "out of memory"]),
        (-250, "signal", ["signal 250"]),
        (0, "exit", ["exit code 0", "os._exit"]),
        (7, "exit", ["exit code 7"]),
    ],
)
def test_death_without_a_result_is_named(return_code: int, kind: str, words: list[str]) -> None:
    advice = diagnose_exit(return_code)
    assert advice.kind == kind
    assert [word for word in words if word not in str(advice)] == []


def test_timeout_says_the_limit() -> None:
    assert "timeout_s = 2.5 seconds" in str(diagnose_timeout(2.5))


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
def test_every_status_has_advice_and_a_block(status: Status) -> None:
    text = diagnosis.text(failure_record(status=status))
    assert text.startswith(f"softmax_golden/smoke: {status} (exit code {status.exit_code})\n")
    for label in ("What happened", "Where", "Likely cause", "Fix", "Log", "Reproduce"):
        assert f"\n  {label:<15}" in text
    assert diagnose_status(status).fix.split()[0] in text


def test_block_is_as_reviewed() -> None:
    advice = str(diagnose_exception("IndexError", "index 7 is out of range"))
    assert diagnosis.text(failure_record(advice=advice)) == (
        "softmax_golden/smoke: golden_failed (exit code 2)\n"
        "  What happened  Golden function crashed on iteration 0: IndexError: index 7 is out of range\n"
        "  Where          step profile, prof/softmax_golden/smoke/fedcba9876543210\n"
        "  Likely cause   A tensor is used as an index, and a drawn value points past the end of what it\n"
        "                 indexes.\n"
        "  Fix            Give that input a legal range in cases.yaml (`init: randint(0, <size of what it\n"
        "                 indexes>)`). Better still, build the inputs in the golden file's\n"
        "                 `_make_inputs(device)` (mode B).\n"
        "  Log            logs/profile/softmax_golden/smoke.log\n"
        "  Reproduce      python -m scripts.profile softmax_golden/smoke\n"
    )


def test_advice_in_other_words_is_shown_as_it_is() -> None:
    text = diagnosis.text(failure_record(advice="Ask Level1 of the profiler."))
    assert "  What to do     Ask Level1 of the profiler.\n" in text
    assert "Likely cause" not in text


def test_commands_and_paths_are_never_wrapped() -> None:
    command = "cd " + "/a very/long path" * 20 + " && python -m scripts.profile x"
    assert f"  Reproduce      {command}\n" in diagnosis.text(failure_record(command=command))


def test_message_cannot_drive_the_terminal_or_flood_it() -> None:
    text = diagnosis.text(failure_record(message="\x1b[2Jbad\r\n" + "x " * 100_000 + "the end", log="a\x07.log"))
    assert not any(char < " " and char != "\n" for char in text)
    assert len(text) < 6000
    assert "characters more in the log" in text
    assert "the end" in text
