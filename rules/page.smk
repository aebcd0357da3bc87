# The sweep for a browser and for other programs. Like the summary, it is also written when cases fail.


rule page:
    input:
        lambda wildcards: steps.results_for_page(plan),
    output:
        page="reports/index.html",
        json="reports/summary.json",
        junit="reports/junit.xml",
        ci="reports/ci.md",
        prometheus="reports/goldenprof.prom",
    log:
        "reports/.page.log",
    params:
        code=steps.code("page"),
    run:
        steps.page(plan)
