# Step 2: measure on the device. `ancient`: what a folder holds is right whenever it is there, whatever its time stamps.


rule profile:
    input:
        record=ancient(f"{CASE}/inputs.json"),
        tensors=ancient(f"{CASE}/inputs.pt"),
    output:
        f"{CASE}/profile.json",
    log:
        f"{CASE}/profile.log",
    resources:
        device=1,
    params:
        plan=lambda wildcards: steps.saved(plan, wildcards.root),
    shell:
        "{PYTHON:q} -I -S {CLIENT:q} profile --plan {params.plan} --case {wildcards.operator}/{wildcards.case} --log {log}"
