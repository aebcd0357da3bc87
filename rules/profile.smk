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
    params:
        plan=lambda wildcards: steps.saved(stale, wildcards.root),
        why=lambda wildcards, output: stale.why("profile", wildcards),
    message:
        "profile of {wildcards.operator}/{wildcards.case}: {params.why}"
    run:
        steps.ask(
            "profile",
            f"{wildcards.operator}/{wildcards.case}",
            params.plan,
            str(log),
        )
