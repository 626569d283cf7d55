# Table: every cell of a figure in one CSV; all that the figure draws.
#
# in:  results/delta_p/<model>/<dataset>.csv of the figure's cells
# out: results/tables/<figure>.csv, <figure>.contrasts.csv


rule table:
    input:
        curves=cells(".csv"),
        contrasts=cells(".contrasts.csv"),
    output:
        table=f"{ROOT}/tables/{{figure}}.csv",
        contrasts=f"{ROOT}/tables/{{figure}}.contrasts.csv",
        provenance=f"{ROOT}/tables/{{figure}}.csv.provenance.json",
    log:
        f"{ROOT}/logs/table/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/table/{{figure}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=lambda w: cfg.cells(w.figure),
    message:
        "table of {wildcards.figure}"
    script:
        "../scripts/table.py"
