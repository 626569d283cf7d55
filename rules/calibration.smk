# Calibration: the instrument against known truth, and cells in which it must find nothing.
#
# in:  scores, ΔP and truth under results/calibration/
# out: results/tables/calibration.csv, calibration-floors.csv, calibration-refits.csv
#      results/tables/null-controls.csv
#      results/figures/calibration.{vl.json,html,svg,pdf,png}


localrules:
    calibration_table,
    calibration_figure,
    null_controls,


rule calibration_cell:
    input:
        scores=product("scores", ".parquet"),
        floors=product("scores", ".floors.parquet"),
        controls=product("delta_p", ".controls.csv"),
        truth=f"{{root}}/truth/{{model}}/{{dataset}}.parquet",
        answers=frozen_answers,
        activations=product("activations"),
    output:
        cell=f"{{root}}/calibration/{{model}}/{{dataset}}.csv",
        provenance=f"{{root}}/calibration/{{model}}/{{dataset}}.csv.provenance.json",
    log:
        f"{{root}}/logs/calibration/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/calibration/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        training_seed=lambda w: cfg.models[w.model].train.seed,
        bootstrap=lambda w: study(w).bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "calibration of {shown.cell:{wildcards.model}/{wildcards.dataset}/}: holding {shown.samples:{wildcards.dataset}/} against the truth"
    script:
        "../scripts/calibration_cell.py"


rule calibration_table:
    input:
        cells=calibrated("calibration", ".csv"),
        refits=calibrated("refits", ".csv"),
    output:
        table=f"{ROOT}/tables/calibration.csv",
        floors=f"{ROOT}/tables/calibration-floors.csv",
        refits=f"{ROOT}/tables/calibration-refits.csv",
        provenance=f"{ROOT}/tables/calibration.csv.provenance.json",
    log:
        f"{ROOT}/logs/calibration/table.log",
    benchmark:
        f"{ROOT}/benchmarks/calibration/table.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=calibration_cells,
    message:
        "calibration: what holds and what does not"
    script:
        "../scripts/calibration_table.py"


rule calibration_figure:
    input:
        table=f"{ROOT}/tables/calibration.csv",
    output:
        **drawn("calibration", "calibration", "Calibration"),
        provenance=f"{ROOT}/figures/calibration.provenance.json",
    log:
        f"{ROOT}/logs/calibration/figure.log",
    benchmark:
        f"{ROOT}/benchmarks/calibration/figure.tsv"
    conda:
        "../envs/base.yaml"
    params:
        page=FIGURE_PAGE,
        models=list(dict.fromkeys(model for model, _ in calibration_cells)),
        datasets=list(dict.fromkeys(dataset for _, dataset in calibration_cells)),
        label={
            "models": {name: cfg.models[name].label for name, _ in calibration_cells},
            "datasets": {name: cfg.datasets[name].label for _, name in calibration_cells},
        },
        level=cfg.bootstrap.level,
        chart=cfg.chart.model_dump(mode="json"),
    message:
        "figure calibration: drawing"
    script:
        "../scripts/calibration_figure.py"


rule null_controls:
    input:
        curve=[
            f"{CALIBRATION}/delta_p/{n.model}/{n.dataset}.csv"
            for n in cfg.calibration.nulls.values()
        ],
        controls=[
            f"{CALIBRATION}/delta_p/{n.model}/{n.dataset}.controls.csv"
            for n in cfg.calibration.nulls.values()
        ],
        interchange=[
            f"{CALIBRATION}/delta_p/{n.model}/{n.dataset}.interchange.csv"
            for n in cfg.calibration.nulls.values()
        ],
    output:
        table=f"{ROOT}/tables/null-controls.csv",
        provenance=f"{ROOT}/tables/null-controls.csv.provenance.json",
    log:
        f"{ROOT}/logs/calibration/null-controls.log",
    benchmark:
        f"{ROOT}/benchmarks/calibration/null-controls.tsv"
    conda:
        "../envs/base.yaml"
    params:
        nulls={name: null.model_dump(mode="json") for name, null in cfg.calibration.nulls.items()},
    message:
        "null controls: what must come out empty"
    script:
        "../scripts/null_controls.py"
