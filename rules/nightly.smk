# A night: every case afresh in a folder of its own, through the same rules; then recorded, judged and shown.
# `goldenprof nightly` calls both targets and ends with an exit code for each outcome.


rule nightly:
    input:
        lambda wildcards: steps.results_of_night(plan),
    log:
        "reports/.nightly.log",
    run:
        steps.nightly(plan)


# What was suspicious, once more; `--config run=…` says of which night.
rule nightly_again:
    input:
        lambda wildcards: steps.second_results_of_night(plan),
    log:
        "reports/.nightly_again.log",
    run:
        steps.nightly(plan)
