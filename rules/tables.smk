# Tables: how far the probes move under each condition, by each condition's own flips, with intervals;
# the cells of a figure in one CSV each, all that its pictures draw; and every sample.
#
# in:  scores, answers, the activations' index (how many tokens were blocked)
#      results/detection/<model>/<dataset>*.csv of the figure's cells
# out: results/delta_p/<model>/<dataset>.csv             one cell's curve (ΔP)
#      results/delta_p/<model>/<dataset>.contrasts.csv   knockout against random
#      results/delta_p/<model>/<dataset>.controls.csv    what else could move the curve, by layer
#      results/delta_p/<model>/<dataset>.crossing.csv    what is read of question, answer and pair
#      results/delta_p/<model>/<dataset>.strata.csv      flips and ΔP among samples that are alike
#      results/delta_p/<model>/<dataset>.density.csv     how Δlogit is spread
#      results/tables/<figure>.csv, and with each of these endings
#      results/tables/<figure>.{detection,detection-reads,detection-curves,detection-layers,
#                               self-awareness,transfer}.csv
#      results/tables/<figure>.samples.csv


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
        probe=lambda w: paths.study(w).probe.model_dump(mode="json", include={"scoring", "prior"}),
        bootstrap=lambda w: paths.study(w).bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "ΔP of {wildcards.model} on {wildcards.dataset}: curve, controls and intervals"
    script:
        "../scripts/delta_p.py"


# Rule -> what it joins: table -> the end of its name, and the tables of the cells.
JOINED = {
    "table": {name: (end, paths.of_figure("delta_p", end)) for name, end in TABLES.items()},
    "detection_table": {
        name: (f".{name}.csv", paths.of_figure("detection", f".{name}.csv"))
        for name in detection_views.TABLES
    },
    "transfer_table": {"transfer": (".transfer.csv", paths.transfers)},
}

for joining, joined in JOINED.items():

    rule:
        name:
            joining
        input:
            **{name: of_cells for name, (_, of_cells) in joined.items()},
        output:
            **{name: f"{ROOT}/tables/{{figure}}{end}" for name, (end, _) in joined.items()},
            provenance=f"{ROOT}/tables/{{figure}}{next(iter(joined.values()))[0]}.provenance.json",
        log:
            f"{ROOT}/logs/{joining}/{{figure}}.log",
        benchmark:
            f"{ROOT}/benchmarks/{joining}/{{figure}}.tsv"
        conda:
            "../envs/base.yaml"
        params:
            cells=(
                (lambda w: [(model,) for model in cfg.figures[w.figure].models])
                if joining == "transfer_table"
                else (lambda w: cfg.cells(w.figure))
            ),
            most_dropped=cfg.most_dropped,
        message:
            f"{joining.replace('_', ' ')} of {{wildcards.figure}}"
        script:
            "../scripts/table.py"


rule samples:
    input:
        scores=paths.of_figure("scores", ".parquet"),
        answers=paths.of_figure("answers", ".parquet"),
    output:
        table=f"{ROOT}/tables/{{figure}}.samples.csv",
        provenance=f"{ROOT}/tables/{{figure}}.samples.csv.provenance.json",
    log:
        f"{ROOT}/logs/samples/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/samples/{{figure}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=lambda w: cfg.cells(w.figure),
        readout=lambda w: cfg.figures[w.figure].readout,
    message:
        "table of the samples of {wildcards.figure}"
    script:
        "../scripts/samples.py"
