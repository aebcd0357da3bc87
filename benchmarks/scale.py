"""What it costs to find out that nothing is to be done, by the number of cases: ours and the same DAG with empty rules.

    python -m benchmarks.scale [--cases 1000 3000 10000]

One case is profiled and reported; the others are copies of all its files, with their own names and stamps, so that ten
thousand of them take minutes. Prints the table of docs/scale.md, in a quarter of an hour and more.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import project
from benchmarks.lines import cpu_seconds
from benchmarks.project import CASES_PER_OPERATOR, Checkout
from scripts import freshness

NOTHING = "Nothing to be done"
ASKED = {
    "the sweep": ("-j1",),
    "the sweep, `-n`": ("-n",),
    "one operator, `-n`": ("-n", *(f"reports/op0_golden/c{i}.md" for i in range(CASES_PER_OPERATOR))),
    "one case, `-n`": ("-n", "reports/op0_golden/c0.md"),
}
EMPTY_KEY = "0123456789ab-cpu-01234567"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, nargs="+", default=[1000, 3000, 10000])
    options = parser.parse_args()
    print(_row("cases", "asked for", "ours, s cpu", "empty rules, s cpu", "ratio"), _row(*["---"] * 5), sep="\n")
    for count in options.cases:
        for asked, mine, theirs in measured(count):
            ratio = f"{mine / theirs:.2f}" if theirs else ""
            print(_row(f"{count:,}", asked, f"{mine:.1f}", f"{theirs:.1f}" if theirs else "", ratio), flush=True)


def measured(count: int) -> Iterator[tuple[str, float, float]]:
    """For everything in ASKED, processor seconds of ours and of the empty rules (0 where they have no such target)."""
    with tempfile.TemporaryDirectory() as folder:
        ours, empty = copied(Path(folder, "ours"), count), touched(Path(folder, "empty"), count)
        for asked, arguments in ASKED.items():
            yield asked, *(_seconds(made, arguments) for made in (ours, empty))


def _seconds(made: Checkout, arguments: tuple[str, ...]) -> float:
    taken = cpu_seconds(lambda: made.seconds(*arguments))
    if NOTHING not in made.output:
        raise RuntimeError(f"something was to be done; the output ends:\n{made.output[-2000:]}")
    return taken


def copied(path: Path, count: int) -> Checkout:
    """A checkout whose `count` cases are all profiled and reported."""
    made = project.checkout(path, count)
    first = made.cases[0]
    made.seconds("-j1", "--config", f"match={first}")  # the device's peaks too, which reports show
    (folder,) = [found for found in (path / "prof" / first).iterdir() if not found.is_symlink()]
    peaks = sorted((path / "prof/.devices").glob("*/peaks.json"))
    for case in made.cases[1:]:
        _copy(folder, first, case, path, peaks)
    made.seconds("-j8")  # the summary and the page
    if "Finished jobid" in made.output and re.search(r"Rule: (?!summary|page|all)\w+", made.output):
        raise RuntimeError(f"a copied case was made again; the output ends:\n{made.output[-2000:]}")
    return made


def _copy(folder: Path, first: str, case: str, root: Path, peaks: list[Path]) -> None:
    """Files of one case for another: names replaced, stamps of what they are made from then, captures linked."""
    target = root / "prof" / case / folder.name
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns("*.json", "*_ascend_pt", "*.log"))
    for capture in folder.glob("*_ascend_pt"):
        (target / capture.name).symlink_to(capture)
    for name in ("inputs.json", "profile.json"):
        (target / name).write_text(_renamed((folder / name).read_text(), first, case))
    made_from: dict[str, str] = {}  # stamps, the first case's and this one's
    for name, sources in (("output.json", ["profile.json"]), ("perf.json", ["profile.json", "output.json"])):
        text = _renamed((folder / name).read_text(), first, case)
        stamp = re.findall(r'"stamp": "([0-9a-f]{16}-[0-9a-f]{16})"', text)[-1]
        made_from[stamp] = f"{stamp[:16]}-{_content([target / source for source in sources])}"
        for old, new in made_from.items():
            text = text.replace(old, new)
        (target / name).write_text(text)
    page, report = (root / f"reports/{each}.md" for each in (first, case))
    text = _renamed(page.read_text(), first, case)
    stamp = re.search(r"from ([0-9a-f]{16}) -->\n\Z", text)
    assert stamp is not None, f"{page} has no stamp"
    report.parent.mkdir(exist_ok=True)
    report.write_text(text.replace(stamp[1], _content([target / "perf.json", *peaks])))
    target.with_name("latest").symlink_to(target.name)


def _renamed(text: str, first: str, case: str) -> str:
    text = text.replace(first, case)
    for old, new in zip(first.split("/"), case.split("/"), strict=True):
        text = re.sub(rf"\b{old}\b", new, text)
    return re.sub(rf"\b{first.split('_')[0]} Golden\b", f"{case.split('_')[0]} Golden", text)


def _content(files: list[Path]) -> str:
    return freshness.page_stamp("report", files).content


def touched(path: Path, count: int) -> Checkout:
    """The same DAG with empty rules, its files made in the order of the steps."""
    made = Checkout(path, project.ids(count))
    shutil.copytree(project.ROOT / "profiles", path / "profiles")
    (path / "Snakefile").write_text(textwrap.dedent(project.EMPTY.format(cases=made.cases, key=EMPTY_KEY)).lstrip())
    for case in made.cases:
        folder, report = path / "prof" / case / EMPTY_KEY, path / f"reports/{case}.md"
        folder.mkdir(parents=True)
        report.parent.mkdir(parents=True, exist_ok=True)
        for name in ("inputs.json", "inputs.pt", "profile.json", "output.json", "perf.json"):
            (folder / name).touch()
        report.touch()
    time.sleep(0.01)
    (path / "reports/summary.md").touch()
    return made


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
