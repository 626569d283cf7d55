# Calibration: the instrument against known truth, and cells in which it must find nothing.
#
# in:  scores, ΔP and truth under results/calibration/
# out: results/tables/calibration.csv, calibration-floors.csv
#      results/tables/null-controls.csv
#      results/figures/calibration.{vl.json,html,svg,pdf,png}


localrules:
    calibration_table,
    calibration_figure,
    null_controls,


rule calibration_cell:
    input:
        scores=paths.product("scores", ".parquet"),
        floors=paths.product("scores", ".floors.parquet"),
        controls=paths.product("delta_p", ".controls.csv"),
        crossing=paths.product("delta_p", ".crossing.csv"),
        truth=f"{{root}}/truth/{{model}}/{{dataset}}.parquet",
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
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
        bootstrap=lambda w: paths.study(w).bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "calibration of {wildcards.model} on {wildcards.dataset}: holding it against the truth"
    script:
        "../scripts/calibration_cell.py"


rule calibration_table:
    input:
        cells=paths.of_calibration("calibration", ".csv"),
    output:
        table=f"{ROOT}/tables/calibration.csv",
        floors=f"{ROOT}/tables/calibration-floors.csv",
        provenance=f"{ROOT}/tables/calibration.csv.provenance.json",
    log:
        f"{ROOT}/logs/calibration/table.log",
    benchmark:
        f"{ROOT}/benchmarks/calibration/table.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=cfg.calibrated(),
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
        page=paths.figure_page,
        models=list(dict.fromkeys(model for model, _ in cfg.calibrated())),
        datasets=list(dict.fromkeys(dataset for _, dataset in cfg.calibrated())),
        label=cfg.labels_of(cfg.calibrated()),
        level=cfg.bootstrap.level,
        chart=cfg.chart.model_dump(mode="json"),
    message:
        "figure calibration: drawing"
    script:
        "../scripts/calibration_figure.py"


rule null_controls:
    input:
        curve=paths.of_nulls("curve"),
        controls=paths.of_nulls("controls"),
        crossing=paths.of_nulls("crossing"),
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
