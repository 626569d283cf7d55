# Reproduction: compare measured curves with published ranges, for every published figure whose table
# exists.
#
# in:  resources/published.yaml, and the tables that exist
# out: results/tables/reproduction.csv


localrules:
    reproduction_table,


rule reproduction_table:
    input:
        published=f"{paths.resources}/published.yaml",
        curve=paths.built(".csv"),
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
    conda:
        "../envs/base.yaml"
    params:
        readouts={name: figure.readout for name, figure in cfg.figures.items()},
    message:
        "reproduction: comparing figures with published ranges"
    script:
        "scripts/reproduction_table.py"
