# Reproduction: measured curves against published ranges, for every published figure that is built.
#
# in:  results/tables/<figure>.csv of the figures that are there, and those of their experiments and
#      detectors; resources/published.yaml
# out: results/tables/reproduction.csv


localrules:
    reproduction_table,


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
