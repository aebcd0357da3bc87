# Step 3: decide which file of the capture is read, and say why.


rule locate_output:
    input:
        ancient(f"{CASE}/profile.json"),
    output:
        f"{CASE}/output.json",
    log:
        f"{CASE}/locate_output.log",
    params:
        code=steps.code("locate_output"),
    run:
        steps.locate_output(plan, wildcards, str(log))
