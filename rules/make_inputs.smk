# Step 1: draw the inputs of a case, once. Freshness is existence: the key in the path holds all they depend on.


rule make_inputs:
    output:
        record=f"{CASE}/inputs.json",
        tensors=steps.cluster.stays_in_its_job(f"{CASE}/inputs.pt"),
    log:
        f"{CASE}/make_inputs.log",
    message:
        "make_inputs of {wildcards.operator}/{wildcards.case}: {why.make_inputs:{output[0]}}"
    run:
        steps.ask(stale, wildcards, "make_inputs", str(log))
