# Step 5: numbers to reports: of a case, of an operator, of everything.


rule report:
    input:
        lambda wildcards: steps.perf_of_case(plan, wildcards),
    output:
        "reports/{operator}/{case}.md",
    log:
        "reports/{operator}/.{case}.log",
    params:
        code=steps.code("report"),
    run:
        steps.report(plan, wildcards, str(log))


rule operator_report:
    input:
        lambda wildcards: steps.perf_of_operator(plan, wildcards),
    output:
        markdown="reports/{operator}.md",
        roofline="reports/{operator}.roofline.svg",
    log:
        "reports/.{operator}.log",
    params:
        code=steps.code("operator_report"),
    run:
        steps.operator_report(plan, wildcards, input, str(log))


rule summary:
    input:
        lambda wildcards: steps.reports_of_sweep(plan),
    output:
        markdown="reports/summary.md",
        table="reports/summary.csv",
    log:
        "reports/.summary.log",
    params:
        code=steps.code("summary"),
    run:
        steps.summary(plan)
