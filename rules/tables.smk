# Tables: how far the probes move under each condition, by each condition's own flips, with intervals;
# the cells of a figure in one CSV each, all that its pictures draw; every sample; and what vouches
# for the curves. What makes them is in anchorscope/workflow/tables.py.
#
# in:  scores, answers, the activations' index (how many tokens were blocked)
#      results/{experiments,detection}/… of the cells
# out: results/delta_p/<model>/<dataset>.csv             one cell's curve (ΔP)
#      results/delta_p/<model>/<dataset>.contrasts.csv   exact less random tokens
#      results/delta_p/<model>/<dataset>.controls.csv    AUCs and flips beside the curve, by layer
#      results/delta_p/<model>/<dataset>.crossing.csv    pair terms, by layer
#      results/delta_p/<model>/<dataset>.claims.csv      a verdict for each claim
#      results/tables/<figure>.csv, and with each of these endings
#      results/tables/<figure>.{detection,detection-reads,self-awareness,transfer,samples,
#                               <experiment>}.csv


localrules:
    table,
    detection_table,
    transfer_table,
    samples,


rule delta_p:
    input:
        scores=paths.product("scores", ".parquet"),
        floors=paths.product("scores", ".floors.parquet"),
        draws=paths.product("scores", ".draws.safetensors"),
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
    output:
        **{name: f"{{root}}/delta_p/{{model}}/{{dataset}}{end}" for name, end in TABLES.items()},
        provenance=f"{{root}}/delta_p/{{model}}/{{dataset}}.csv.provenance.json",
    log:
        f"{{root}}/logs/delta_p/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/delta_p/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/base.yaml"
    resources:
        **jobs.asks("tables"),
    params:
        bootstrap=lambda w: paths.study(w).bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "ΔP of {wildcards.model} on {wildcards.dataset}: curve, controls and intervals"
    script:
        "../scripts/table.py"


BOOTSTRAP = cfg.bootstrap.model_dump(mode="json")
OF_FIGURE = dict(cells=lambda w: cfg.cells(w.figure), most_dropped=cfg.most_dropped)
DETECTION = {name: f".{name}.csv" for name in detection_views.TABLES}

# Tables of many cells: rule -> what it makes them of, their names, its settings, what it is about.
OF_MANY = {
    "table": (
        {name: paths.of_figure("delta_p", end) for name, end in TABLES.items()},
        {name: f"{{figure}}{end}" for name, end in TABLES.items()},
        OF_FIGURE | dict(level=cfg.bootstrap.level),
        "table of {wildcards.figure}",
    ),
    "detection_table": (
        {name: paths.of_figure("detection", end) for name, end in DETECTION.items()},
        {name: f"{{figure}}{end}" for name, end in DETECTION.items()},
        OF_FIGURE,
        "detection table of {wildcards.figure}",
    ),
    "transfer_table": (
        dict(transfer=paths.transfers),
        dict(transfer="{figure}.transfer.csv"),
        OF_FIGURE | dict(cells=lambda w: [(model,) for model in cfg.figures[w.figure].models]),
        "transfer table of {wildcards.figure}",
    ),
    "samples": (
        {kind: paths.of_figure(kind, ".parquet") for kind in ("scores", "answers")},
        dict(table="{figure}.samples.csv"),
        dict(
            cells=lambda w: cfg.cells(w.figure),
            readout=lambda w: cfg.figures[w.figure].readout,
        ),
        "table of the samples of {wildcards.figure}",
    ),
    "experiment_table": (
        dict(
            rows=lambda w: paths.of_figure(f"experiments/{w.experiment}", ".parquet")(w),
            scores=paths.of_figure("scores", ".parquet"),
            answers=paths.of_figure("answers", ".parquet"),
            floors=paths.if_needed("floors", paths.of_figure("scores", ".floors.parquet")),
            draws=paths.if_needed("floors", paths.of_figure("scores", ".draws.safetensors")),
            truth=paths.if_needed("truth", paths.truth_of_figure),
        ),
        dict(table="{figure}.{experiment}.csv"),
        dict(cells=lambda w: cfg.cells(w.figure), bootstrap=BOOTSTRAP, seed=cfg.seed),
        "table of {wildcards.experiment} of {wildcards.figure}",
    ),
}

for made_by, (made_of, tables, settings, about) in OF_MANY.items():
    first = next(iter(tables.values())).removesuffix(".csv")

    rule:
        name:
            made_by
        input:
            **made_of,
        output:
            **{name: f"{ROOT}/tables/{table}" for name, table in tables.items()},
            provenance=f"{ROOT}/tables/{first}.csv.provenance.json",
        log:
            f"{ROOT}/logs/{made_by}/{first}.log",
        benchmark:
            f"{ROOT}/benchmarks/{made_by}/{first}.tsv"
        conda:
            "../envs/base.yaml"
        params:
            **settings,
        message:
            about
        script:
            "../scripts/table.py"
