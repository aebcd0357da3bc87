# Step 5: numbers to reports: of a case, of an operator, of everything.


rule report:
    input:
        lambda wildcards: stale.report_inputs(wildcards),
    output:
        report(
            "reports/{operator}/{case}.md",
            caption="captions/case.rst",
            category="Cases",
            subcategory="{operator}",
            labels={"operator": "{operator}", "case": "{case}"},
        ),
    log:
        "reports/{operator}/.{case}.log",
    message:
        "report of {wildcards.operator}/{wildcards.case}: {why.report:{output[0]}}"
    run:
        steps.report(stale, wildcards, str(log))


rule operator_report:
    input:
        lambda wildcards: stale.operator_inputs(wildcards),
    output:
        markdown=report(
            "reports/{operator}.md",
            caption="captions/operator.rst",
            category="Operators",
            labels={"operator": "{operator}", "what": "report"},
        ),
        roofline=report(
            "reports/{operator}.roofline.svg",
            caption="captions/roofline.rst",
            category="Operators",
            labels={"operator": "{operator}", "what": "roofline"},
        ),
    log:
        "reports/.{operator}.log",
    message:
        "operator_report of {wildcards.operator}: {why.operator_report:{output[0]}}"
    run:
        steps.operator_report(stale, wildcards, str(log))


rule summary:
    input:
        lambda wildcards: stale.summary_inputs(),
    output:
        markdown=report(
            "reports/summary.md",
            caption="captions/summary.rst",
            category="Sweep",
            labels={"what": "summary"},
        ),
        table=report(
            "reports/summary.csv",
            caption="captions/table.rst",
            category="Sweep",
            labels={"what": "summary, as a table"},
        ),
    log:
        "reports/.summary.log",
    message:
        "summary: {why.summary:{output[0]}}"
    run:
        steps.summary(stale)
