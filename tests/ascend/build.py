"""Builds the stand-in CANN: the libraries that torch_npu links and loads, and the folders it looks into.

The functions that matter are written in the C files beside this one, against the ACL headers that the wheel
ships. Whatever else the wheel's libraries leave undefined gets a one-line stub that notes its call in the journal and
returns 0.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
SOURCES = ("runtime.c", "streams.c", "memory.c", "operators.c", "profiling.c")
TORCH_NPU_VERSION = "2.13.0"
CANN_VERSION = "8.5.0-stand-in"
# Linked by the wheel or opened by name; all of them hand on to libascendcl.
EMPTY_LIBRARIES = (
    "hccl",
    "acl_op_compiler",
    "ge_runner",
    "graph",
    "acl_tdt_channel",
    "ascend_hal",
    "msprofiler",
    "runtime",
)
# Not linked but looked up by name; torch_npu raises, or warns at every start, when one of these is not there.
LOOKED_UP = (
    "aclrtCtxSetSysParamOpt",
    "aclrtSetDeviceSatMode",
    "aclSetCompileopt",
    "aclrtGetSysParamOpt",
    "aclrtSetSysParamOpt",
    "aclrtSetOpExecuteTimeOut",
    "halGetDeviceInfo",
)
CHECKED_FOLDERS = ("runtime", "compiler", "opp")  # importing torch_npu fails without them
STUB_MACRO = r"""void journal_call(const char *, const char *, ...);
#define STUB(name) \
    long name(void) { \
        static int told; \
        if (!told++) journal_call(#name, "\"stub\":true"); \
        return 0; \
    }
"""
WHEEL_LIBRARIES = ("lib/libtorch_npu.so", "lib/libtensorpipe.so", "lib/libnpu_profiler.so", "_C.*.so")


class StandInUnavailable(Exception):
    """What the stand-in is made of cannot be had here; the message says what and why."""


def cache_folder() -> Path:
    """The folder, shared by all checkouts of this user, where the wheel is kept unpacked."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "goldenprof"


def install_wheel() -> Path:
    """Return the folder to put on PYTHONPATH for torch_npu, installing the wheel there the first time.

    Raises StandInUnavailable when the main environment holds torch_npu already, when its torch does not match, or when
    pip cannot get the wheel.
    """
    if torch.__version__.split("+")[0] != TORCH_NPU_VERSION:
        raise StandInUnavailable(
            f"torch_npu {TORCH_NPU_VERSION} needs torch {TORCH_NPU_VERSION}, not {torch.__version__}"
        )
    if any(d.metadata["Name"] in ("torch-npu", "torch_npu") for d in importlib.metadata.distributions()):
        raise StandInUnavailable("torch_npu is installed in this environment; the stand-in would shadow a real CANN")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    side = cache_folder() / f"torch-npu-{TORCH_NPU_VERSION}-{python}"
    if not (side / "complete").exists():
        partial = side.with_name(f"{side.name}.{os.getpid()}")
        partial.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        command += ["--target", str(partial), f"torch-npu=={TORCH_NPU_VERSION}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            shutil.rmtree(partial, ignore_errors=True)
            raise StandInUnavailable(f"pip cannot install torch-npu=={TORCH_NPU_VERSION}: {done.stderr.strip()[-300:]}")
        (partial / "complete").touch()
        try:
            partial.rename(side)
        except OSError:  # another process was first
            shutil.rmtree(partial)
    return side


def symbols(library: Path, which: str) -> set[str]:
    """The names of a library's dynamic symbols: `which` is "--defined-only" or "--undefined-only"."""
    done = subprocess.run(["nm", "-D", "-P", which, str(library)], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in done.stdout.splitlines() if " w" not in line}


def missing_functions(wheel: Path, defined: set[str]) -> list[str]:
    """C functions that the wheel's libraries expect and neither torch nor `defined` holds."""
    found = {name.split("@")[0] for lib in torch_libraries() for name in symbols(lib, "--defined-only")} | defined
    wanted: set[str] = set()
    for pattern in WHEEL_LIBRARIES:
        for library in (wheel / "torch_npu").glob(pattern):
            wanted |= symbols(library, "--undefined-only")
            found |= {name.split("@")[0] for name in symbols(library, "--defined-only")}
    # With a version they come from the C library; mangled or Python's they are not CANN's.
    ours = ("acl", "Msprof", "rt", "Hccl", "hal", "ge")
    return sorted(name for name in wanted - found if "@" not in name and name.startswith(ours))


def torch_libraries() -> list[Path]:
    return sorted((Path(torch.__file__).parent / "lib").glob("lib*.so"))


def compile_library(sources: list[Path], target: Path, options: list[str]) -> None:
    command = ["gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{target.name}", *options]
    command += ["-o", str(target), *map(str, sources), "-lm", "-lpthread"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{target.name} does not compile:\n{done.stderr[-3000:]}")


def build_libraries(wheel: Path, folder: Path) -> None:
    """Write libascendcl.so and the libraries that only link to it into `folder`."""
    folder.mkdir(parents=True)
    include = [f"-I{wheel / 'torch_npu/include/third_party/acl/inc'}"]
    written = [HERE / name for name in SOURCES]
    probe = folder / "libprobe.so"
    compile_library(written, probe, include)
    stubs = missing_functions(wheel, symbols(probe, "--defined-only"))
    probe.unlink()
    text = "".join(f"STUB({name})\n" for name in [*stubs, *LOOKED_UP])
    (folder / "stubs.c").write_text(STUB_MACRO + text)
    compile_library([*written, folder / "stubs.c"], folder / "libascendcl.so", include)
    (folder / "empty.c").write_text("")
    for name in EMPTY_LIBRARIES:
        link = ["-Wl,--no-as-needed", f"-L{folder}", "-lascendcl"]
        compile_library([folder / "empty.c"], folder / f"lib{name}.so", link)


def build_toolkit(wheel: Path, root: Path) -> Path:
    """Lay out the stand-in CANN under `root` and return it.

    torch_npu cuts msprof's real path at the first "tools", so no folder above `root` may have that in its name.
    """
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        raise StandInUnavailable("gcc and nm are needed to build the stand-in runtime")
    if "tools" in str(root.resolve()):
        raise StandInUnavailable(f"{root.resolve()} has 'tools' in it, where torch_npu would cut msprof's path")
    build_libraries(wheel, root / "lib64")
    analysis = root / "tools/profiler/profiler_tool/analysis/msprof/msprof.py"
    analysis.parent.mkdir(parents=True)
    analysis.touch()
    msprof = root / "tools/profiler/bin/msprof"
    msprof.parent.mkdir(parents=True)
    msprof.write_text(f"#!{sys.executable} -I\n" + (HERE / "msprof.py").read_text(encoding="utf-8"), encoding="utf-8")
    msprof.chmod(0o750)
    values = root / "cpu_values"  # on PYTHONPATH only when asked for
    (values / "stand_in_cpu_values-1.dist-info").mkdir(parents=True)
    shutil.copy(HERE / "cpu_values.py", values / "stand_in_cpu_values.py")
    entry = "[torch.backends]\nstand_in_cpu_values = stand_in_cpu_values:install\n"
    (values / "stand_in_cpu_values-1.dist-info/entry_points.txt").write_text(entry)
    (values / "stand_in_cpu_values-1.dist-info/METADATA").write_text("Name: stand-in-cpu-values\nVersion: 1\n")
    for name in CHECKED_FOLDERS:
        (root / name).mkdir()
    (root / "ascend_toolkit_install.info").write_text(f"package_name=Ascend-cann-toolkit\nversion={CANN_VERSION}\n")
    return root
