# Validation: what the choices that the paper leaves open do to a curve, one at a time; and measured
# curves against published ranges, for every published figure that is built.
#
# in:  ΔP, contrasts and controls of the main study and of each variant; resources/published.yaml and
#      tables of the figures that are there, of their experiments and detectors
# out: results/tables/sensitivity.csv, reproduction.csv


localrules:
    sensitivity_table,
    reproduction_table,


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


rule reproduction_table:
    input:
        published=f"{paths.resources}/published.yaml",
        curve=paths.built(".csv"),
        contrasts=paths.built(".contrasts.csv"),
        others=[
            path
            for name in (*EXPERIMENTS, "detection", "self-awareness")
            for path in paths.built(f".{name}.csv")
        ],
    output:
        table=f"{ROOT}/tables/reproduction.csv",
        provenance=f"{ROOT}/tables/reproduction.csv.provenance.json",
    log:
        f"{ROOT}/logs/reproduction.log",
    benchmark:
        f"{ROOT}/benchmarks/reproduction.tsv"
    conda:
        "../envs/base.yaml"
    params:
        readouts={name: figure.readout for name, figure in cfg.figures.items()},
    message:
        "reproduction: published ranges against what is built"
    script:
        "../scripts/reproduction.py"
