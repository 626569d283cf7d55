# Pictures: ΔP against layer, and what stands beside it: controls, probes, read-outs, experiments and
# detection. What there is, and what each draws, is in anchorscope/workflow/pictures.py.
#
# in:  results/tables/<figure>*.csv
# out: results/figures/<figure>.{vl.json,html,svg,pdf,png}
#      results/figures/<figure>.<view>.{vl.json,html,svg,pdf,png}


localrules:
    picture,


rule picture:
    input:
        paths.drawn,
    output:
        **drawn("{figure}{view}", "picture", lambda w: paths.picture(w).category),
        provenance=f"{ROOT}/figures/{{figure}}{{view}}.provenance.json",
    log:
        f"{ROOT}/logs/picture/{{figure}}{{view}}.log",
    benchmark:
        f"{ROOT}/benchmarks/picture/{{figure}}{{view}}.tsv"
    wildcard_constraints:
        # A dot and the view; nothing for the figure itself.
        view="|".join(rf"\.{re.escape(name)}" if name else "" for name in paths.views),
    conda:
        "../envs/base.yaml"
    params:
        view=lambda w: w.view[1:],
        readouts=paths.readouts,
        page=paths.figure_page,
        title=lambda w: paths.picture(w).title or cfg.figures[w.figure].title,
        models=lambda w: cfg.figures[w.figure].models,
        datasets=lambda w: cfg.figures[w.figure].datasets,
        label=lambda w: cfg.labels_of(cfg.cells(w.figure)),
        readout=lambda w: cfg.figures[w.figure].readout,
        grouping=lambda w: cfg.grouping if paths.picture(w).grouped else None,
        level=cfg.bootstrap.level,
        chart=cfg.chart.model_dump(mode="json"),
    message:
        "figure {wildcards.figure}{wildcards.view}: drawing"
    script:
        "../scripts/picture.py"
