# The sweep for a browser and for other programs. Like the summary, it is also written when cases fail.


rule page:
    input:
        lambda wildcards: stale.page_inputs(),
    output:
        page=report(
            "reports/index.html",
            caption="captions/page.rst",
            category="Sweep",
            labels={"what": "page"},
        ),
        json="reports/summary.json",
        junit="reports/junit.xml",
        ci="reports/ci.md",
        prometheus="reports/goldenprof.prom",
    log:
        "reports/.page.log",
    message:
        "page: {why.page:{output[0]}}"
    run:
        steps.page(stale)
