# Sensitivity: what the choices that the paper leaves open do to a curve, one at a time.
#
# in:  ΔP, contrasts and controls of the main study and of each variant
# out: results/tables/sensitivity.csv


localrules:
    sensitivity_table,


varied = cfg.sensitivity or cfg.calibration
varied_datasets = varied.datasets if cfg.sensitivity else varied.datasets[:1]
varied_cells = [(model, dataset) for model in varied.models for dataset in varied_datasets]
VARIANTS = studies.sensitivity_roots(cfg)


def varied_tables(name):
    return [
        f"{root}/delta_p/{model}/{dataset}{TABLES[name]}"
        for root in [ROOT, *VARIANTS.values()]
        for model, dataset in varied_cells
    ]


rule sensitivity_table:
    input:
        curve=varied_tables("curve"),
        contrasts=varied_tables("contrasts"),
        controls=varied_tables("controls"),
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
        cells=varied_cells,
        variants=list(VARIANTS),
        readout=cfg.readouts[0],
    message:
        "sensitivity: one choice at a time"
    script:
        "../scripts/sensitivity.py"
