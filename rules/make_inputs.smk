# Step 1: draw the inputs of a case, once. Freshness is existence: the key in the path holds all they depend on.


rule make_inputs:
    output:
        record=f"{CASE}/inputs.json",
        tensors=steps.cluster.stays_in_its_job(f"{CASE}/inputs.pt"),
    log:
        f"{CASE}/make_inputs.log",
    params:
        plan=lambda wildcards: steps.saved(stale, wildcards.root),
        why=lambda wildcards, output: stale.why("make_inputs", wildcards),
    message:
        "make_inputs of {wildcards.operator}/{wildcards.case}: {params.why}"
    run:
        steps.ask(
            "make_inputs",
            f"{wildcards.operator}/{wildcards.case}",
            params.plan,
            str(log),
        )
