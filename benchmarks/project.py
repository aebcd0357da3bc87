"""Checkouts with many cases: one is profiled, the others get copies of it; and the same DAG with empty rules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CASES_PER_OPERATOR = 50
GOLDEN = '''
    """Twice the input, plus one."""


    def trivial_golden(x):
        return x * 2 + 1
'''
# The rules of a case, and the summary, with nothing in them: what Snakemake itself costs for the same jobs and files.
EMPTY = """
    CASES = {cases!r}
    CASE = "prof/{{operator}}/{{case}}/{{key}}"
    KEY = "{key}"


    def touch(paths):
        for path in paths:
            open(path, "w").close()


    rule all:
        input:
            lambda wildcards: [f"reports/{{case}}.md" for case in CASES],
            "reports/summary.md",


    rule make_inputs:
        output:
            f"{{CASE}}/inputs.json",
            f"{{CASE}}/inputs.pt",
        log:
            f"{{CASE}}/make_inputs.log",
        run:
            touch(output)


    rule profile:
        input:
            lambda wildcards: [f"{{CASE}}/{{name}}".format(**wildcards) for name in ("inputs.json", "inputs.pt")],
        output:
            f"{{CASE}}/profile.json",
        log:
            f"{{CASE}}/profile.log",
        resources:
            device=1,
        run:
            touch(output)


    rule locate_output:
        input:
            f"{{CASE}}/profile.json",
        output:
            f"{{CASE}}/output.json",
        log:
            f"{{CASE}}/locate_output.log",
        run:
            touch(output)


    rule parse_csv:
        input:
            f"{{CASE}}/output.json",
        output:
            f"{{CASE}}/perf.json",
        log:
            f"{{CASE}}/parse_csv.log",
        run:
            touch(output)


    rule report:
        input:
            lambda wildcards: f"{{CASE}}/perf.json".format(key=KEY, **wildcards),
        output:
            "reports/{{operator}}/{{case}}.md",
        log:
            "reports/{{operator}}/.{{case}}.log",
        run:
            touch(output)


    rule summary:
        input:
            lambda wildcards: [f"reports/{{case}}.md" for case in CASES],
        output:
            "reports/summary.md",
        run:
            touch(output)
"""


# Python set as ours is: what is left is what our rules cost.
ALIKE = """
    import sys

    sys.path.insert(0, {root!r})

    from scripts import interpreter

    interpreter.before_the_graph()


    onstart:
        interpreter.before_the_jobs()

"""


@dataclass
class Checkout:
    """A folder that `snakemake` runs in."""

    path: Path
    cases: list[str]  # ids
    output: str = ""  # of the last call
    profile: str = "profiles/default"  # "none": Snakemake's own settings

    def seconds(self, *arguments: str, check: bool = True, **environment: str) -> float:
        """Wall time of one call of snakemake; RuntimeError with its output when it fails."""
        command = [sys.executable, "-m", "snakemake", "-s", str(self.path / "Snakefile"), "--directory", str(self.path)]
        profile = self.profile if self.profile == "none" else str(self.path / self.profile)
        command += ["--workflow-profile", profile, *arguments]
        start = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=self.path,
            env={**os.environ, "GOLDENPROF_LOCK_DIR": str(self.path / ".locks"), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        taken = time.perf_counter() - start
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
        self.output = done.stdout
        return taken

    def edit(self, module: str, text: str) -> None:
        """Append code to a module of the checkout, so that what uses it is stale."""
        with (self.path / "scripts" / f"{module}.py").open("a") as file:
            file.write(f"\n\n{text}\n")

    def edit_cases(self, old: str, new: str) -> None:
        """Replace text of the cases file."""
        self._replace("config/cases.yaml", old, new)

    def edit_golden(self, old: str, new: str) -> None:
        """Replace text of the golden that all cases share."""
        self._replace("golden/trivial_golden.py", old, new)

    def _replace(self, file: str, old: str, new: str) -> None:
        text = (self.path / file).read_text()
        if old not in text:
            raise ValueError(f"{file} holds no {old!r}")
        (self.path / file).write_text(text.replace(old, new))


def ids(count: int) -> list[str]:
    """`count` case ids, CASES_PER_OPERATOR per operator."""
    return [f"op{i // CASES_PER_OPERATOR}_golden/c{i % CASES_PER_OPERATOR}" for i in range(count)]


def checkout(path: Path, count: int) -> Checkout:
    """A copy of this project in `path` with `count` trivial cases; nothing is profiled yet."""
    for name in ("scripts", "rules", "profiles", "config"):
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", path)
    (path / "golden").mkdir()
    (path / "golden/trivial_golden.py").write_text(textwrap.dedent(GOLDEN).lstrip())
    made = Checkout(path, ids(count))
    (path / "config/cases.yaml").write_text(_cases(made.cases))
    return made


def _cases(cases: list[str]) -> str:
    lines = ["defaults: {device: cpu, warmup: 1, iterations: 3, noise_mib: 1}", "operators:"]
    for operator in dict.fromkeys(case.split("/")[0] for case in cases):
        lines += [f"  {operator}:", "    golden: golden/trivial_golden.py", "    mode: A", "    cases:"]
        own = [case.split("/")[1] for case in cases if case.startswith(f"{operator}/")]
        lines += [f"      {case}: {{inputs: {{x: {{shape: [64, 64], dtype: float32}}}}}}" for case in own]
    return "\n".join(lines) + "\n"


def cached(path: Path, count: int) -> Checkout:
    """A checkout whose `count` cases are all profiled and reported: copies of one capture, read for each of them."""
    made = checkout(path, count)
    first = made.cases[0]
    made.seconds("-j1", f"reports/{first}.md")
    (key,) = [folder for folder in (path / "prof" / first).iterdir() if not folder.is_symlink()]
    for case in made.cases[1:]:
        target = path / "prof" / case / key.name
        shutil.copytree(key, target, ignore=shutil.ignore_patterns("output.json", "perf.json"))
        for name in ("inputs.json", "profile.json"):  # their names are not in the key
            text = (target / name).read_text()
            for old, new in zip(first.split("/"), case.split("/"), strict=True):
                text = text.replace(f'"{old}"', f'"{new}"')
            (target / name).write_text(text)
    made.seconds("-j8")
    return made


def empty(path: Path, count: int, alike: bool = False) -> Checkout:
    """The same DAG with empty rules, everything made; `alike`: with Python set as ours is, too."""
    key = "0123456789ab-cpu-01234567"
    made = Checkout(path, ids(count))
    shutil.copytree(ROOT / "profiles", path / "profiles")
    text = textwrap.dedent(EMPTY.format(cases=made.cases, key=key)).lstrip()
    if alike:
        text = textwrap.dedent(ALIKE.format(root=str(ROOT))).lstrip() + "\n" + text
    (path / "Snakefile").write_text(text)
    made.seconds("-j8")
    return made
