# Step 4: rows to numbers.


rule parse_csv:
    input:
        f"{CASE}/output.json",
    output:
        f"{CASE}/perf.json",
    log:
        f"{CASE}/parse_csv.log",
    params:
        code=steps.code("parse_csv"),
    run:
        steps.parse_csv(plan, wildcards, str(log))
