# Beside the cases: what their devices can do at most, once per device. `snakemake peaks` measures it, and so does a
# sweep, before its reports. A single report shows it when it is there and does not ask for it.


rule peaks:
    input:
        lambda wildcards: stale.peaks(),


rule device_peaks:
    output:
        "prof/.devices/{environment}/peaks.json",
    log:
        "prof/.devices/{environment}/peaks.log",
    priority: 1
    resources:
        device=1,
    message:
        "device_peaks of {wildcards.environment}: asked for once per device and set of versions"
    run:
        steps.measure_peaks(stale, wildcards, str(log))
