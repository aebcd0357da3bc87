# goldenprof: profile PyTorch golden operators, one target per (operator, case), and report what was measured.
#
#     snakemake -j1 reports/attention_golden/perf_p0_small.md     one case
#     snakemake -j1 reports/attention_golden.md                   all cases of one operator
#     snakemake -j1                                               the sweep: smoke cases on a CPU, p0 on an accelerator
#     snakemake -j1 nightly                                       measure all afresh, record, compare, show
#
# config/cases.yaml says what is profiled; docs/design.md how the house is laid out.


include: "rules/common.smk"
include: "rules/peaks.smk"
include: "rules/make_inputs.smk"
include: "rules/profile.smk"
include: "rules/locate_output.smk"
include: "rules/parse_csv.smk"
include: "rules/report.smk"
include: "rules/page.smk"
include: "rules/nightly.smk"


# On a cluster these run where it is planned: they are cheap, and want the whole plan.
localrules:
    all,
    cases,
    peaks,
    report,
    operator_report,
    summary,
    page,
    nightly,
    nightly_again,


rule all:
    default_target: True
    input:
        # The reports too: a sweep that failed leaves a summary, and missing reports must still be asked for.
        lambda wildcards: stale.sweep(),
        "reports/summary.md",
        "reports/summary.csv",
        "reports/index.html",
        lambda wildcards: stale.peaks(),


# The reports alone, which `--batch cases=1/10` takes a part of: with the summary, every batch would hold every case.
rule cases:
    input:
        lambda wildcards: stale.sweep(),


onstart:
    steps.start(stale)


onsuccess:
    steps.finish(stale, failed=False)


onerror:
    steps.finish(stale, failed=True)
