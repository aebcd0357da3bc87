"""What went wrong, why, and what to do: one piece of advice per kind of failure.

A crash is diagnosed, never skipped. The commonest kinds stand in the tables of README.md.
"""

from __future__ import annotations

import re
import signal
import textwrap
from dataclasses import dataclass

from scripts.artifacts import FailureRecord
from scripts.formatting import one_line, plain
from scripts.status import Status

WIDTH = 100  # columns of the printed block
MOST_MESSAGE = 3000  # characters of a message; the whole of it is in the log
FACTORY = "Better still, build the inputs in the golden file's `_make_inputs(device)` (mode B)."


@dataclass(frozen=True)
class Advice:
    """The likely cause of a failure and the way out."""

    kind: str  # "index", "shape", "device", "precondition", "other", "memory", "signal", "timeout", …
    cause: str
    fix: str

    def __str__(self) -> str:
        return f"Likely cause: {self.cause}\nFix: {self.fix}"


GRADIENT = Advice(
    "gradient",
    "Goldens are called without gradients (`torch.no_grad()`), and this one takes some.",
    "Wrap that part of the golden in `with torch.enable_grad():`.",
)
INDEX = Advice(
    "index",
    "A tensor is used as an index, and a drawn value points past the end of what it indexes.",
    f"Give that input a legal range in cases.yaml (`init: randint(0, <size of what it indexes>)`). {FACTORY}",
)
SHAPE = Advice(
    "shape",
    "The shapes of two tensors depend on each other, and the case gives them sizes that do not fit together.",
    "Correct the shapes in cases.yaml, or derive all of them from a few base sizes (batch, heads, length). " + FACTORY,
)
DEVICE = Advice(
    "device",
    "A tensor has another dtype or lies on another device than the operation expects, or the device reported an error.",
    "Put every tensor on the one device that the golden is called with, create new ones on their inputs' device, and "
    "give the dtypes that the golden expects. After an error of the device itself, read its log: the call that raised "
    "may be later than the one that failed.",
)
PRECONDITION = Advice(
    "precondition",
    "The golden checks its arguments, and the case's inputs do not satisfy the check.",
    f"Read the check where the traceback ends and give inputs that satisfy it. {FACTORY}",
)
ARGUMENTS = Advice(
    "arguments",
    "The golden was called with arguments that its signature does not take, or without one that it needs.",
    "Compare the names under `inputs`, `scalars` and `kwargs` in cases.yaml with the golden's signature.",
)
IMPORT = Advice(
    "import",
    "The golden file imports something that this Python environment does not have.",
    "Install it into the environment that runs the pipeline, or remove the import if the golden does not need it.",
)
OTHER = Advice(
    "other",
    "The golden does not accept these inputs; values drawn at random may break a rule that it relies on.",
    "Read the golden where the traceback ends and build legal inputs in its `_make_inputs(device)` (mode B).",
)
MEMORY = Advice(
    "memory",
    "The device or the machine had too little memory for the inputs, the intermediates and the noise buffer together.",
    "Use smaller shapes, lower `noise_mib`, or free the device: another process may hold its memory.",
)
NO_KERNELS = Advice(
    "no_kernels",
    "The capture has no row that is the golden's: it only makes views, ran on another device, or took a short cut.",
    "Look at the Type and Duration columns of the capture. If the golden's kernels are there, they were taken for "
    "noise: check the noise types and shape in profile.json. If not, change the inputs so that its core path runs.",
)
PROFILER_SILENT = Advice(
    "profiler_silent",
    "The profiler wrote nothing at all, so it probably never started.",
    "Check that the versions of torch, torch_npu, CANN and the driver belong together, then run `goldenprof doctor`.",
)
NO_CSV = Advice(
    "no_csv",
    "The capture was started but its analysis did not end with a kernel table.",
    "Read the profiler's messages in the log and profile the case again; an interrupted analysis leaves such a folder.",
)
ANALYSIS_TIMEOUT = Advice(
    "analysis_timeout",
    "The capture was made, and the profiler's analysis of it did not end: msprof hangs, or the capture is very large.",
    "Read in the log how far it came, and run `goldenprof doctor`. Lower `iterations`, or raise `timeout_s`.",
)
UNAVAILABLE = Advice(
    "unavailable",
    "The device that the case asks for is not there, is out of range, or is in use by another process.",
    "Run `goldenprof doctor`, choose a device that it lists (`--config device=…`), or wait until it is free.",
)
SKIPPED = Advice("skipped", "The case was left out on purpose.", "Nothing, if the reason is right.")

MEMORY_SIGNS = r"out of memory|not enough memory|alloc\w* (memory|failed)|failed to alloc|MemoryError"
INDEX_SIGNS = r"out of (range|bounds)|index\w* .*(exceeds|larger than)|device-side assert"
DEVICE_SIGNS = (
    r"\bCUDA\b|\bNPU\b|\bACL|\bcuDNN|\bcublas|\bHCCL|dtype|scalar type|not implemented for|same device|"
    r"on device|device type|(expected|found) .*\b(Half|Float|Double|BFloat16|Long|Int|Bool)\b"
)
SHAPE_SIGNS = r"shape|sizes?\b|dimension|\bdims?\b|must match|broadcast|multiplied|expand|numel|elements"


def diagnose_exception(type_name: str, message: str) -> Advice:
    """Advice for an exception that the golden raised: its class's name (or dotted path) and its message.

    The message is asked before the class, since torch says almost everything with a RuntimeError.
    """
    name = type_name.rpartition(".")[2]
    if "does not require grad" in message:
        return GRADIENT
    if name in ("MemoryError", "OutOfMemoryError") or _has(MEMORY_SIGNS, message):
        return MEMORY
    if name == "IndexError" or _has(INDEX_SIGNS, message):
        return INDEX
    if name in ("ValueError", "AssertionError"):
        return PRECONDITION
    if name in ("ImportError", "ModuleNotFoundError"):
        return IMPORT
    if name == "TypeError" and _has(r"\bargument", message):
        return ARGUMENTS
    if name in ("RuntimeError", "AcceleratorError", "NotImplementedError"):
        if _has(DEVICE_SIGNS, message):
            return DEVICE
        if _has(SHAPE_SIGNS, message):
            return SHAPE
    return OTHER


def diagnose_exit(return_code: int) -> Advice:
    """Advice for a golden's process that ended without a result; `return_code` as subprocess gives it."""
    if return_code >= 0:
        return Advice(
            "exit",
            f"The golden, or something it calls, ended the process with exit code {return_code} (`os._exit` or "
            "`sys.exit`) before the measurement was over, or closed file descriptors that it had not opened.",
            "Remove the call that ends the process or closes them; a golden returns its result or raises.",
        )
    name = _signal_name(-return_code)
    if -return_code == signal.SIGKILL:
        return Advice(
            "signal",
            f"The process was killed from outside ({name}): on most machines the system ran out of memory.",
            "Look for `Out of memory` in the kernel's log (`dmesg`), then use smaller shapes or fewer jobs at a time.",
        )
    return Advice(
        "signal",
        f"The process crashed in native code ({name}): a kernel, a driver or a library went wrong, not Python.",
        "The stack of the crash is in the log. Run the command below alone; if it crashes again, try smaller shapes, "
        "then other versions of torch and the device's libraries, and report it to whoever owns the code on the stack.",
    )


def diagnose_timeout(timeout_s: float) -> Advice:
    """Advice for a case that was stopped after `timeout_s` seconds."""
    return Advice(
        "timeout",
        f"The golden did not end within timeout_s = {timeout_s:g} seconds: it hangs, or the case is larger than that.",
        "Read in the log where it was when its time was over. If the golden is only slow, raise the case's `timeout_s` "
        "or lower its `iterations`.",
    )


def diagnose_status(status: Status) -> Advice:
    """Advice where no more is known than how the case ended."""
    return {
        Status.SKIPPED: SKIPPED,
        Status.NO_KERNELS: NO_KERNELS,
        Status.MISSING_OUTPUT: NO_CSV,
        Status.INCOMPLETE: Advice(
            "incomplete",
            "The capture does not show the same kernels in every iteration; profilers lose rows at times.",
            "Profile the case again. If it stays so, the golden does different work each time: fix its inputs or seed.",
        ),
        Status.TIMEOUT: Advice(
            "timeout",
            "The case did not end within its `timeout_s`.",
            "Raise `timeout_s`, or read in the log where it hangs.",
        ),
        Status.DEVICE_UNAVAILABLE: UNAVAILABLE,
        Status.PROFILER_FAILED: PROFILER_SILENT,
    }.get(status, OTHER)


def text(failure: FailureRecord) -> str:
    """The block for the log and the terminal: what happened, where, why, what to do, and how to see it again."""
    exit_code = f" (exit code {failure.status.exit_code})"
    lines = [f"{one_line(failure.operator)}/{one_line(failure.case)}: {failure.status}{exit_code}"]
    fields = [("What happened", _shortened(failure.message)), ("Where", _where(failure))]
    cause, fix = cause_and_fix(failure)
    fields += [("Likely cause", cause), ("Fix" if cause else "What to do", fix)]
    fields += [("Log", failure.log), ("Reproduce", failure.command)]
    for label, value in fields:
        if value:
            lines += _field(label, value, wrapped=label not in ("Log", "Reproduce"))
    return "\n".join(lines) + "\n"


def _where(failure: FailureRecord) -> str:
    folder = f"prof/{failure.operator}/{failure.case}/{failure.key}" if failure.key else ""
    return f"step {failure.step}" + (f", {folder}" if folder else "")


def cause_and_fix(failure: FailureRecord) -> tuple[str, str]:
    """The likely cause of a failure, "" where none is known, and what to do."""
    advice = failure.advice or str(diagnose_status(failure.status))
    match = re.fullmatch(r"Likely cause: (.*?)\nFix: (.*)", advice, re.DOTALL)
    return (match[1], match[2]) if match else ("", advice)


def _field(label: str, value: str, wrapped: bool) -> list[str]:
    """`value` beside its label; commands and paths stay whole, so that they can be copied."""
    indent = " " * 17
    lines = []
    for line in plain(value).splitlines():
        lines += (
            textwrap.wrap(line, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
            if wrapped
            else [line]
        )
    return [(f"  {label:<15}" if i == 0 else indent) + line for i, line in enumerate(lines)]


def _shortened(message: str) -> str:
    if len(message) <= MOST_MESSAGE:
        return message
    half = MOST_MESSAGE // 2
    return f"{message[:half]}\n… {len(message) - 2 * half} characters more in the log …\n{message[-half:]}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _has(signs: str, message: str) -> bool:
    return re.search(signs, message, re.IGNORECASE) is not None
