"""What of the planned cases is stale in this run: the rules' input functions and messages.

An input is `ancient` unless what makes it runs in this run, so that Snakemake looks at existence alone, never at time
stamps. What is there, but stale by its content (scripts/freshness.py), is forced by its name. Both hold without
Snakemake's metadata as well as with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from snakemake.io import ancient

from scripts import failures, freshness, peaks
from scripts.freshness import OUTPUTS, PAGES, STEPS, Verdict
from scripts.plan import Plan, PlannedCase
from scripts.report_files import INDEX, SUMMARY, SWEEP_PAGES, operator_page
from scripts.workflow_errors import explained

PEAKS = "device_peaks"
CLOCKS_DIFFER_S = 5  # between this machine and a file server


@dataclass(frozen=True)
class _Reason:
    """Formatted with a job's first output as its format: why the job runs."""

    of: Callable[[str], str]

    def __format__(self, output: str) -> str:
        return self.of(output)


@dataclass
class Staleness:
    """One run of the workflow; `workflow` is Snakemake's own object."""

    plan: Plan
    workflow: Any
    _verdicts: dict[str, Verdict] = field(default_factory=dict)  # by the case's place
    _why: dict[str, str] = field(default_factory=dict)  # of pages, by path

    def __post_init__(self) -> None:
        self.plan.anew = lambda: not self.forced.isdisjoint(("make_inputs", "profile"))

    @cached_property
    def forced(self) -> frozenset[str]:
        """The rules that the command line forces."""
        settings = self.workflow.dag_settings
        targets = settings.targets if settings.forcetargets else ()
        return frozenset(STEPS) if settings.forceall else frozenset(map(_rule_of, (*settings.forcerun, *targets)))

    # ------------------------------------------------------------ input functions

    def inputs(self, step: str, wildcards: Any, *names: str) -> list[str]:
        """Files of a case's folder that `step` reads."""
        here = self.plan.rooted(wildcards.root)
        planned = explained(lambda: here.at(wildcards.operator, wildcards.case, wildcards.key))
        if self._verdict(planned).step in (step, *freshness.before(step)):
            self._force(f"{planned.place}/{OUTPUTS[step]}")
        return [self._seen(step, planned, f"{planned.place}/{name}") for name in names]

    def report_inputs(self, wildcards: Any) -> list[str]:
        """Input of rule report."""
        planned = explained(lambda: self.plan.case(wildcards.operator, wildcards.case))
        return self._page_inputs("report", planned.report, [planned])

    def operator_inputs(self, wildcards: Any) -> list[str]:
        """Input of rule operator_report."""
        cases = explained(lambda: self.plan.operator(wildcards.operator))
        return self._page_inputs("operator_report", operator_page(wildcards.operator), cases)

    def sweep(self) -> list[str]:
        """Input of the target `all`: the report of every selected case."""
        self.plan.summary_wanted = True
        reports = [planned.report for planned in explained(self.plan.sweep)]
        for report in reports:
            _date(report)
        return list(map(str, reports))

    def peaks(self) -> list[str]:
        """peaks.json of every device that the cases are measured on here."""
        return [str(planned.target) for planned in explained(lambda: self.plan.devices).values()]

    def summary_inputs(self) -> list[str]:
        """Input of rule summary."""
        return self._sweep_inputs("summary", SUMMARY)

    def page_inputs(self) -> list[str]:
        """Input of rule page."""
        self.plan.page_wanted = True
        return self._sweep_inputs("page", INDEX)

    def _sweep_inputs(self, rule: str, page: Path) -> list[str]:
        """The reports; one that is missing is passed over where the page stands without it."""
        cases = explained(self.plan.sweep)
        if any(self._verdict(planned).step or failures.path(planned).exists() for planned in cases):
            self._why[str(page)] = "its results change"
            self._force(page)
        elif self.forced.isdisjoint((*STEPS, PEAKS, rule)) and all(map(os.path.exists, self.peaks())):
            self._judge(rule, page, *freshness.sweep_sources(cases, all_reported=True))
            if not self._why[str(page)]:
                return [ancient(report) for report in self.sweep() if Path(report).exists()]
        return self.sweep()

    def _page_inputs(self, rule: str, page: Path, cases: list[PlannedCase]) -> list[str]:
        first = next((planned for planned in cases if self._verdict(planned).step), None)
        if first is None:
            self._judge(rule, page, freshness.with_peaks(cases))
        else:
            self._why[str(page)] = _after(self._verdict(first), f" of {first.case.id}" if len(cases) > 1 else "")
            self._force(page)
        perfs = [self._seen(rule, planned, f"{planned.place}/perf.json") for planned in cases]
        return [*perfs, *self._peaks_of(cases)]

    def _peaks_of(self, cases: list[PlannedCase]) -> list[str]:
        """A sweep asks for the peaks and waits for them; a single report shows them when they are there.

        Measuring them never fails a job (it leaves a record that says why there are none), so that no report is lost.
        """
        asked = {planned.target for planned in self.plan.devices.values()} if self.plan.summary_wanted else set()
        paths = sorted({peaks.path_of(planned.key) for planned in cases})
        for path in paths:
            _date(path)
        there = str if PEAKS in self.forced else ancient
        return [there(str(path)) if path.exists() else str(path) for path in paths if path in asked or path.exists()]

    def _judge(self, rule: str, page: Path, sources: Iterable[Path | str], extra: str = "") -> None:
        """Force a page whose sources stand if its own content says that it is stale."""
        self._why[str(page)] = why = freshness.of_page(page, rule, sources, extra)
        if why:
            self._force(page)

    def _verdict(self, planned: PlannedCase) -> Verdict:
        """Asked once, when the DAG is built: what is made later in this run is right."""
        if (found := self._verdicts.get(planned.place)) is None:
            found = self._verdicts[planned.place] = freshness.of_case(planned)
        return found

    def _force(self, path: Path | str) -> None:
        """Have what is there made again: to Snakemake alone, a file whose input is missing is good enough."""
        if os.path.exists(path):
            self.workflow.dag.forcefiles.add(str(path))

    def _seen(self, step: str, planned: PlannedCase, path: str) -> str:
        _date(path)
        earlier = freshness.before(step)
        runs = self._verdict(planned).step in earlier or not self.forced.isdisjoint(earlier)
        return path if runs else ancient(path)

    # ------------------------------------------------------------ messages

    @cached_property
    def reasons(self) -> SimpleNamespace:
        """For the rules' messages: `{why.profile:prof/op/case/key/profile.json}` is why that file is made by profile.

        A message is made when its job runs; a rule's parameter would be made for every job there could be.
        """
        cases = {step: _Reason(partial(self._why_step, step)) for step in STEPS if step not in PAGES}
        return SimpleNamespace(**cases, **{rule: _Reason(partial(self._why_page, rule)) for rule in PAGES})

    def _why_step(self, step: str, output: str) -> str:
        *root, operator, case, _, _ = output.split("/")
        planned = self.plan.rooted("/".join(root)).case(operator, case)
        verdict = self._verdict(planned)
        if not verdict.step or step in self.forced:
            return self._asked(step)
        return verdict.why if step in (verdict.step, "make_inputs") else _after(verdict)

    def _why_page(self, rule: str, page: str) -> str:
        return self._why.get(page) or self._asked(rule)

    def _asked(self, step: str) -> str:
        shown = (PEAKS,) if step in PAGES else ()
        if self.forced.isdisjoint((step, *freshness.before(step), *shown)):
            return "its files are needed and missing"
        return "forced on the command line"


def _date(path: Path | str) -> None:
    """Date a file from the future now: after a clock was set back, Snakemake would refuse all that is made of it."""
    try:
        if os.stat(path).st_mtime > time.time() + CLOCKS_DIFFER_S:
            os.utime(path)
    except OSError:
        pass  # it is not there, or another user's


def _after(verdict: Verdict, of_case: str = "") -> str:
    return f"after {verdict.step}{of_case} ({verdict.why})"


def _rule_of(target: str) -> str:
    """The rule of a target of the command line, which is a rule's name or a file."""
    if target in (*STEPS, *PAGES, PEAKS):
        return target
    path = Path(os.path.relpath(target))
    if path.name == "peaks.json":
        return PEAKS
    if path.parent == SUMMARY.parent:
        return SWEEP_PAGES.get(path.name, "operator_report")
    return next((rule for rule, output in OUTPUTS.items() if output == path.name), "report")
