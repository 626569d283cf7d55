# Views: the pictures beside a figure: its controls, crossing, its probes, each other read-out, all read-outs.
#
# in:  results/tables/<figure>.csv and <figure>.{contrasts,controls,crossing,density}.csv
# out: results/figures/<figure>.<view>.{vl.json,html,svg,pdf,png}


localrules:
    view,


rule view:
    input:
        **{name: f"{ROOT}/tables/{{figure}}{end}" for name, end in TABLES.items()},
    output:
        **drawn("{figure}.{view}", "view", "Controls and probes"),
        provenance=f"{ROOT}/figures/{{figure}}.{{view}}.provenance.json",
    log:
        f"{ROOT}/logs/view/{{figure}}.{{view}}.log",
    benchmark:
        f"{ROOT}/benchmarks/view/{{figure}}.{{view}}.tsv"
    wildcard_constraints:
        view=one_of([*paths.views, *paths.readouts.values()]),
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
        "figure {wildcards.figure}, {wildcards.view}: drawing"
    script:
        "../scripts/view.py"
