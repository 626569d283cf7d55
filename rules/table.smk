# Table: every cell of a figure in one CSV; all that the figure draws.
#
# in:  results/delta_p/<model>/<dataset>.csv of the figure's cells
# out: results/tables/<figure>.csv, and
#      <figure>.{contrasts,controls,crossing,strata,density}.csv


localrules:
    table,


rule table:
    input:
        **{name: paths.of_figure("delta_p", end) for name, end in TABLES.items()},
    output:
        **{name: f"{ROOT}/tables/{{figure}}{end}" for name, end in TABLES.items()},
        provenance=f"{ROOT}/tables/{{figure}}.csv.provenance.json",
    log:
        f"{ROOT}/logs/table/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/table/{{figure}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=lambda w: cfg.cells(w.figure),
        most_dropped=cfg.most_dropped,
    message:
        "table of {wildcards.figure}"
    script:
        "../scripts/table.py"
