# Report: one page of a run: claims, figures, counts, single samples, provenance; no network needed.
#
# in:  figures and tables of the targets; prompts, answers and scores of their cells
#      if they exist: the pictures and tables of other targets
# out: results/report/index.html


from anchorscope.report import run_facts


localrules:
    report_page,


rule report_page:
    input:
        pictures=[paths.pictures(figure) + paths.views_of(figure) for figure in cfg.targets],
        tables=[f"{ROOT}/tables/{figure}{end}" for figure in cfg.targets for end in TABLES.values()],
        cells=[paths.of_targets("delta_p", end) for end in TABLES.values()],
        prompts=paths.of_targets("prompts"),
        answers=paths.of_targets("answers"),
        scores=paths.of_targets("scores", ".safetensors"),
        page=f"{paths.resources}/report/page.html",
        parts=expand(
            f"{paths.resources}/report/{{part}}",
            part="macros.html claims.html figures.html run.html "
            "references.bib report.css tables.js".split(),
        ),
        words=paths.words,
    output:
        page=f"{ROOT}/report/index.html",
        provenance=f"{ROOT}/report/index.html.provenance.json",
    log:
        f"{ROOT}/logs/report.log",
    conda:
        "../envs/base.yaml"
    params:
        config=run_facts.resolved(cfg),
        beside=paths.beside(
            *[
                f"figures/{figure}.{view}.svg"
                for figure in cfg.targets
                for view in paths.extra_views
            ],
            *[
                f"tables/{figure}.{name}.csv"
                for figure in cfg.targets
                for view in detection_views.VIEWS.values()
                for name in view.tables
            ],
        ),
    message:
        f"report of the run in {ROOT}: writing one page"
    script:
        "../scripts/report_page.py"
