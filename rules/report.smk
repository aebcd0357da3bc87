# Step 5: numbers to reports: of a case, of an operator, of everything.


rule report:
    input:
        lambda wildcards: stale.report_inputs(wildcards),
    output:
        "reports/{operator}/{case}.md",
    log:
        "reports/{operator}/.{case}.log",
    params:
        why=lambda wildcards, output: stale.why_page("report", output[0]),
    message:
        "report of {wildcards.operator}/{wildcards.case}: {params.why}"
    run:
        steps.report(stale, wildcards, str(log))


rule operator_report:
    input:
        lambda wildcards: stale.operator_inputs(wildcards),
    output:
        markdown="reports/{operator}.md",
        roofline="reports/{operator}.roofline.svg",
    log:
        "reports/.{operator}.log",
    params:
        why=lambda wildcards, output: stale.why_page("operator_report", output[0]),
    message:
        "operator_report of {wildcards.operator}: {params.why}"
    run:
        steps.operator_report(stale, wildcards)


rule summary:
    input:
        lambda wildcards: stale.summary_inputs(),
    output:
        markdown="reports/summary.md",
        table="reports/summary.csv",
    log:
        "reports/.summary.log",
    params:
        why=lambda wildcards, output: stale.why_page("summary", output[0]),
    message:
        "summary: {params.why}"
    run:
        steps.summary(stale)
