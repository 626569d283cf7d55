# Figure: ΔP against layer, below it the share of flips and the truth of the pair, from tables.
#
# in:  results/tables/<figure>.csv and <figure>.crossing.csv
# out: results/figures/<figure>.{vl.json,html,svg,pdf,png}


localrules:
    figure,


rule figure:
    input:
        table=f"{ROOT}/tables/{{figure}}.csv",
        crossing=f"{ROOT}/tables/{{figure}}.crossing.csv",
        strata=f"{ROOT}/tables/{{figure}}.strata.csv",
    output:
        **drawn("{figure}", "figure", "Figures"),
        provenance=f"{ROOT}/figures/{{figure}}.provenance.json",
    log:
        f"{ROOT}/logs/figure/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/figure/{{figure}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        page=paths.figure_page,
        title=lambda w: cfg.figures[w.figure].title,
        models=lambda w: cfg.figures[w.figure].models,
        datasets=lambda w: cfg.figures[w.figure].datasets,
        label=lambda w: cfg.labels_of(cfg.cells(w.figure)),
        readout=lambda w: cfg.figures[w.figure].readout,
        grouping=cfg.grouping,
        level=cfg.bootstrap.level,
        chart=cfg.chart.model_dump(mode="json"),
    message:
        "figure {wildcards.figure}: drawing"
    script:
        "../scripts/figure.py"
