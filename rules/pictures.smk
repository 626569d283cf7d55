# Pictures: the figure of ΔP against layer, and pictures of evidence, read-outs, experiments and
# detection. anchorscope/workflow/pictures.py lists them.
#
# Methods: a text for a paper on each figure's methods and claims, and its references.
#
# in:  results/tables/<figure>*.csv
# out: results/figures/<figure>.{vl.json,html,svg,pdf,png}
#      results/figures/<figure>.{methods.md,bib}
#      results/figures/<figure>.<view>.{vl.json,html,svg,pdf,png}

from anchorscope.report import run_facts


localrules:
    picture,
    methods,


rule picture:
    input:
        paths.picture_tables,
    output:
        **picture_files("{figure}{view}"),
        provenance=f"{ROOT}/figures/{{figure}}{{view}}.provenance.json",
    log:
        f"{ROOT}/logs/picture/{{figure}}{{view}}.log",
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
        level=cfg.bootstrap.level,
        chart=cfg.chart.model_dump(mode="json"),
    message:
        "figure {wildcards.figure}{wildcards.view}: drawing"
    script:
        "../scripts/picture.py"


rule methods:
    input:
        tables=lambda w: [f"{ROOT}/tables/{w.figure}{end}" for end in TABLES.values()],
        # Their provenance holds the counts of samples by stage.
        cells=paths.of_figure("delta_p", ".csv"),
    output:
        text=f"{ROOT}/figures/{{figure}}.methods.md",
        references=f"{ROOT}/figures/{{figure}}.bib",
        provenance=f"{ROOT}/figures/{{figure}}.methods.md.provenance.json",
    log:
        f"{ROOT}/logs/methods/{{figure}}.log",
    conda:
        "../envs/base.yaml"
    params:
        words=paths.methods_words,
        config=lambda w: run_facts.of_figure(cfg, w.figure),
    message:
        "figure {wildcards.figure}: writing the methods text"
    script:
        "../scripts/methods.py"
