# Step 4: rows to numbers.


rule parse_csv:
    input:
        lambda wildcards: stale.inputs("parse_csv", wildcards, "output.json"),
    output:
        f"{CASE}/perf.json",
    log:
        f"{CASE}/parse_csv.log",
    params:
        why=lambda wildcards, output: stale.why("parse_csv", wildcards),
    message:
        "parse_csv of {wildcards.operator}/{wildcards.case}: {params.why}"
    run:
        steps.parse_csv(stale, wildcards, str(log))
