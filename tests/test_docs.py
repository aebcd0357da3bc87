"""The pages for readers name what is there, all of it, and no page is out of reach."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from scripts import cli, key, result_identity
from scripts.history import HistoryRow
from scripts.night import Outcome
from scripts.outcomes import NOT_RUN, UNREADABLE
from scripts.status import Status
from scripts.summary import SummaryRow
from scripts.verdicts import Judgement, Verdict

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.glob("*.md")), *(ROOT / folder / "README.md" for folder in ("golden", "prof", "reports"))]


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def table(page: str, header: str) -> list[list[str]]:
    """The rows of the table whose first line begins with `header`, cell by cell."""
    _, found, rest = page.partition(header)
    assert found, f"no table {header!r}"
    rows = []
    for line in rest.splitlines()[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def modules(folder: str) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py")}


def links(page: Path) -> list[Path]:
    found = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    return [(page.parent / target).resolve() for target in found if "://" not in target]


def patterns() -> list[str]:
    """What the rooms are made of, as seen from the repository's root: a name without a folder lies in scripts/."""
    cells = [name for row in table(text("design.md"), "| room |") for name in named(row[0])]
    outside = ("scripts/", "golden/", "benchmarks/", "rules/", "Snakefile")
    return [name if name.startswith(outside) else f"scripts/{name}" for name in cells]


def test_every_module_has_one_room() -> None:
    rooms = {
        module: [p for p in patterns() if (module.startswith(p) if p.endswith("/") else Path(module).match(p))]
        for module in modules("scripts")
        if Path(module).name != "__init__.py"
    }
    assert [f"{module}: {found}" for module, found in sorted(rooms.items()) if len(found) != 1] == []


def test_every_room_is_there() -> None:
    assert [pattern for pattern in patterns() if not any(ROOT.glob(pattern))] == []


@pytest.mark.parametrize("package", ["devices", "warm"])
def test_a_packages_docstring_names_its_modules(package: str) -> None:
    head = (ROOT / "scripts" / package / "__init__.py").read_text(encoding="utf-8")
    names = {Path(module).name for module in modules(f"scripts/{package}")} - {"__init__.py"}
    assert set(re.findall(r"\w+\.py", head)) == names


def test_what_runs_in_the_snakemake_process_imports_no_torch() -> None:
    """All that workflow_steps imports, the steps that it imports later included."""
    steps = (ROOT / "scripts/workflow_steps.py").read_text(encoding="utf-8")
    found = re.findall(r"^ +from scripts import (\w+)", steps, re.MULTILINE)
    assert {"page_steps", "night"} <= set(found)
    imports = ", ".join(f"scripts.{name}" for name in ("workflow_steps", "case_steps", "page", *found))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {imports}; sys.exit('torch' in sys.modules)"], cwd=ROOT, text=True
    )
    assert done.returncode == 0


def test_every_link_leads_somewhere() -> None:
    assert [f"{page.name}: {target}" for page in PAGES for target in links(page) if not target.exists()] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        waiting += [link for link in links(page) if link.suffix == ".md" and link not in reached]
    assert set(PAGES) - reached == set()


def test_the_command_lines_page_has_every_verb() -> None:
    listed = [named(row[0])[0] for row in table(text("cli.md"), "| verb |")]
    assert sorted(listed) == sorted(verb.name for verb in cli.VERBS)


def test_the_facets_of_identity_are_those_of_the_code() -> None:
    rows = table(text("compare.md"), "| facet |")
    assert [named(row[0])[0] for row in rows] == list(result_identity.FACETS)
    told = zip(rows, result_identity.FACETS.values(), strict=True)
    assert [words for row, words in told if not row[1].startswith(words)] == []


def test_the_columns_of_the_history_are_those_of_the_code() -> None:
    told = [name for row in table(text("history.md"), "| column |") for name in named(row[0])]
    assert sorted(told) == sorted(field.name for field in fields(HistoryRow))


def test_the_schema_of_the_summary_is_that_of_the_code() -> None:
    told = json.loads(text("summary.schema.json"))["$defs"]
    assert list(told["case"]["properties"].keys() ^ {field.name for field in fields(SummaryRow)}) == ["verdict"]
    assert told["verdict"]["properties"].keys() ^ {field.name for field in fields(Judgement)} == {"word", "verdict"}
    assert told["verdict"]["properties"]["word"]["enum"] == list(Verdict)
    statuses = told["case"]["properties"]["status"]["description"]
    assert [status for status in (*Status, NOT_RUN, UNREADABLE) if status not in statuses] == []


def test_the_exit_codes_of_a_night_are_those_of_the_code() -> None:
    told = {int(row[0]): row[1] for row in table(text("nightly.md"), "| exit code |")}
    assert told.pop(1).startswith("the night could not be run")
    assert [(code, words) for code, words in told.items() if not words.startswith(_outcome_of(code))] == []
    assert sorted(told) == sorted(outcome.exit_code for outcome in Outcome)


def _outcome_of(code: int) -> str:
    return next(str(outcome) for outcome in Outcome if outcome.exit_code == code)


def test_the_facts_that_stale_on_takes_are_those_of_the_code() -> None:
    sentence = re.search(r"Facts: ([^.]+)\.", text("rerun.md"))
    assert sentence is not None
    assert named(sentence[1]) == list(key.FACTS)


def test_every_variable_of_the_environment_is_documented() -> None:
    """But for the one by which a run finds its own warm parent."""
    code = "".join((ROOT / module).read_text(encoding="utf-8") for module in modules("scripts"))
    read = set(re.findall(r"\bGOLDENPROF_\w+", code)) - {"GOLDENPROF_SESSION"}
    told = set(re.findall(r"\bGOLDENPROF_\w+", "".join(page.read_text(encoding="utf-8") for page in PAGES)))
    assert told == read
