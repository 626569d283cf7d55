# Sensitivity: what the choices that the paper leaves open do to a curve, one at a time.
#
# in:  ΔP, contrasts and controls of the main study and of each variant
# out: results/tables/sensitivity.csv


localrules:
    sensitivity_table,


rule sensitivity_table:
    input:
        curve=paths.of_variants("curve"),
        contrasts=paths.of_variants("contrasts"),
        controls=paths.of_variants("controls"),
    output:
        table=f"{ROOT}/tables/sensitivity.csv",
        provenance=f"{ROOT}/tables/sensitivity.csv.provenance.json",
    log:
        f"{ROOT}/logs/sensitivity.log",
    benchmark:
        f"{ROOT}/benchmarks/sensitivity.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=studies.varied_cells(cfg),
        variants=list(studies.sensitivity_roots(cfg)),
        readout=cfg.readouts[0],
    message:
        "sensitivity: one choice at a time"
    script:
        "../scripts/sensitivity.py"
