# Step 2: measure on the device. Freshness is existence here too.


rule profile:
    input:
        lambda wildcards: stale.inputs("profile", wildcards, "inputs.json", "inputs.pt"),
    output:
        f"{CASE}/profile.json",
    log:
        f"{CASE}/profile.log",
    priority: 1  # what is drawn is measured before more is drawn: inputs are large, and go when they were measured
    resources:
        device=1,
    message:
        "profile of {wildcards.operator}/{wildcards.case}: {why.profile:{output[0]}}"
    run:
        steps.ask(stale, wildcards, "profile", str(log))
