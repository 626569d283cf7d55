# Tables: ΔP, controls, pair terms and claims of each cell, with intervals. For a figure, the same
# tables of all its cells, tables of detection and experiments, and one row per sample.
#
# in:  scores, answers, the activations' index (how many tokens were blocked)
#      results/{experiments,detection}/… of the cells
# out: results/delta_p/<model>/<dataset>.csv             one cell's curve (ΔP)
#      results/delta_p/<model>/<dataset>.contrasts.csv   exact minus random tokens
#      results/delta_p/<model>/<dataset>.controls.csv    AUCs and flips beside the curve, by layer
#      results/delta_p/<model>/<dataset>.crossing.csv    pair terms, by layer
#      results/delta_p/<model>/<dataset>.claims.csv      a verdict for each claim
#      results/tables/<figure>.csv, and with each of these endings
#      results/tables/<figure>.{detection,detection-reads,self-awareness,samples,
#                               <experiment>}.csv


localrules:
    table,
    detection_table,
    samples,


rule delta_p:
    input:
        scores=paths.product("scores", ".safetensors"),
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
    output:
        **{name: f"{ROOT}/delta_p/{{model}}/{{dataset}}{end}" for name, end in TABLES.items()},
        provenance=f"{ROOT}/delta_p/{{model}}/{{dataset}}.csv.provenance.json",
    log:
        f"{ROOT}/logs/delta_p/{{model}}/{{dataset}}.log",
    conda:
        "../envs/base.yaml"
    resources:
        **jobs.asks("tables"),
    params:
        method=METHOD,
        bootstrap=cfg.bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "ΔP of {wildcards.model} on {wildcards.dataset}: curve, controls and intervals"
    script:
        "../scripts/delta_p.py"


BOOTSTRAP = cfg.bootstrap.model_dump(mode="json")


rule table:
    input:
        **{name: paths.of_figure("delta_p", end) for name, end in TABLES.items()},
    output:
        **{name: f"{ROOT}/tables/{{figure}}{end}" for name, end in TABLES.items()},
        provenance=f"{ROOT}/tables/{{figure}}.csv.provenance.json",
    log:
        f"{ROOT}/logs/table/{{figure}}.log",
    conda:
        "../envs/base.yaml"
    params:
        method=METHOD,
        cells=lambda w: cfg.cells(w.figure),
        most_dropped=cfg.most_dropped,
        level=cfg.bootstrap.level,
    message:
        "table of {wildcards.figure}"
    script:
        "../scripts/table.py"


rule detection_table:
    input:
        **{name: paths.of_figure("detection", f".{name}.csv") for name in detection_views.TABLES},
    output:
        **{name: f"{ROOT}/tables/{{figure}}.{name}.csv" for name in detection_views.TABLES},
        provenance=f"{ROOT}/tables/{{figure}}.detection.csv.provenance.json",
    log:
        f"{ROOT}/logs/detection_table/{{figure}}.detection.log",
    conda:
        "../envs/base.yaml"
    params:
        cells=lambda w: cfg.cells(w.figure),
        most_dropped=cfg.most_dropped,
    message:
        "detection table of {wildcards.figure}"
    script:
        "../scripts/detection_table.py"


rule samples:
    input:
        scores=paths.of_figure("scores", ".safetensors"),
        answers=paths.of_figure("answers", ".parquet"),
    output:
        table=f"{ROOT}/tables/{{figure}}.samples.csv",
        provenance=f"{ROOT}/tables/{{figure}}.samples.csv.provenance.json",
    log:
        f"{ROOT}/logs/samples/{{figure}}.samples.log",
    conda:
        "../envs/base.yaml"
    params:
        cells=lambda w: cfg.cells(w.figure),
        readout=lambda w: cfg.figures[w.figure].readout,
    message:
        "table of the samples of {wildcards.figure}"
    script:
        "../scripts/samples.py"


rule experiment_table:
    input:
        measured=lambda w: paths.of_figure(f"experiments/{w.experiment}", ".safetensors")(w),
        scores=paths.of_figure("scores", ".safetensors"),
        answers=paths.of_figure("answers", ".parquet"),
    output:
        table=f"{ROOT}/tables/{{figure}}.{{experiment}}.csv",
        provenance=f"{ROOT}/tables/{{figure}}.{{experiment}}.csv.provenance.json",
    log:
        f"{ROOT}/logs/experiment_table/{{figure}}.{{experiment}}.log",
    conda:
        "../envs/base.yaml"
    params:
        method=METHOD,
        cells=lambda w: cfg.cells(w.figure),
        bootstrap=BOOTSTRAP,
        seed=cfg.seed,
    message:
        "table of {wildcards.experiment} of {wildcards.figure}"
    script:
        "../scripts/experiment_table.py"
