"""Put the main case's report, as it was made on this machine, into the README.

snakemake -j1 reports/attention_golden/perf_p0_small.md && python -m benchmarks.readme_report
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPORT = "reports/attention_golden/perf_p0_small.md"
BEGIN, END = "<!-- report:begin -->\n", "<!-- report:end -->"
LAST_SECTION = "## Iterations"  # what follows is left out of the README


def insert(readme: str, report: str) -> str:
    """`readme` with the first sections of `report` between its two marks, its headings two levels lower."""
    shown = report.split(LAST_SECTION)[0].rstrip()
    shown = shown.replace("[Warnings](#warnings)", "Warnings")  # its section is not shown here
    lowered = "\n".join(f"##{line}" if line.startswith("#") else line for line in shown.splitlines())
    title = f"`{REPORT}`, as it was made, up to its spread:\n\n<details open><summary>a report</summary>"
    text = f"{title}\n\n{lowered}\n\n</details>\n"
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Rewrite README.md."""
    readme = ROOT / "README.md"
    readme.write_text(insert(readme.read_text(), (ROOT / REPORT).read_text()))


if __name__ == "__main__":
    main()
