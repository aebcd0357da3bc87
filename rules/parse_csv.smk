# Step 4: rows to numbers.


rule parse_csv:
    input:
        lambda wildcards: stale.inputs("parse_csv", wildcards, "output.json"),
    output:
        f"{CASE}/perf.json",
    log:
        f"{CASE}/parse_csv.log",
    message:
        "parse_csv of {wildcards.operator}/{wildcards.case}: {why.parse_csv:{output[0]}}"
    run:
        steps.parse_csv(stale, wildcards, str(log))
