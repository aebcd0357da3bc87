# Step 3: decide which file of the capture is read, and say why.


rule locate_output:
    input:
        lambda wildcards: stale.inputs("locate_output", wildcards, "profile.json"),
    output:
        f"{CASE}/output.json",
    log:
        f"{CASE}/locate_output.log",
    message:
        "locate_output of {wildcards.operator}/{wildcards.case}: {why.locate_output:{output[0]}}"
    run:
        steps.locate_output(stale, wildcards, str(log))
