# Calibration: the instrument against known truth, and cells in which it must find nothing.
#
# in:  answers, questions and the model; scores, ΔP and rows of experiments under results/calibration/
# out: results/calibration/truth/<model>/<dataset>.parquet   which pathway each sample really uses
#      results/tables/calibration.csv, calibration-floors.csv
#      results/tables/calibration-experiments.csv, calibration-experiments-floors.csv
#      results/tables/null-controls.csv
#      results/figures/calibration.{vl.json,html,svg,pdf,png}


localrules:
    calibration_table,
    calibration_figure,
    null_controls,


rule truth:
    input:
        taught=taught,
        answers=paths.product("answers", ".parquet"),
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        truth=f"{{root}}/truth/{{model}}/{{dataset}}.parquet",
        provenance=f"{{root}}/truth/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{{root}}/logs/truth/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/truth/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes"),
    params:
        dtype=lambda w: cfg.models[w.model].dtype,
        train=lambda w: cfg.models[w.model].train.numbers(),
        worlds=lambda w: cfg.worlds_of(w.model),
        conditions=lambda w: paths.study(w).conditions.model_dump(mode="json"),
        batch_tokens=cfg.batch_tokens,
        seed=cfg.seed,
    message:
        "truth of {wildcards.model} on {wildcards.dataset}: swapping the questions"
    script:
        "../scripts/truth.py"


rule calibration_cell:
    input:
        scores=paths.product("scores", ".parquet"),
        floors=paths.product("scores", ".floors.parquet"),
        controls=paths.product("delta_p", ".controls.csv"),
        contrasts=paths.product("delta_p", ".contrasts.csv"),
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
        curve=paths.of_calibration("delta_p", TABLES["curve"], studies.null_cells(cfg)),
        controls=paths.of_calibration("delta_p", TABLES["controls"], studies.null_cells(cfg)),
        contrasts=paths.of_calibration("delta_p", TABLES["contrasts"], studies.null_cells(cfg)),
        crossing=paths.of_calibration("delta_p", TABLES["crossing"], studies.null_cells(cfg)),
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


rule experiment_calibration:
    input:
        rows=paths.of_experiments(),
        scores=paths.of_calibration("scores", ".parquet", paths.held_cells()),
        floors=paths.of_calibration("scores", ".floors.parquet", paths.held_cells()),
        answers=paths.of_calibration("answers", ".parquet", paths.held_cells()),
        activations=paths.of_calibration("activations", "", paths.held_cells()),
        truth=paths.of_calibration("truth", ".parquet"),
    output:
        table=f"{ROOT}/tables/calibration-experiments.csv",
        floors=f"{ROOT}/tables/calibration-experiments-floors.csv",
        provenance=f"{ROOT}/tables/calibration-experiments.csv.provenance.json",
    log:
        f"{ROOT}/logs/calibration/experiments.log",
    benchmark:
        f"{ROOT}/benchmarks/calibration/experiments.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=paths.held_cells(),
        measured=paths.experiments_held(),
        calibrated=cfg.calibrated(),
        nulls={name: null.model_dump(mode="json") for name, null in cfg.calibration.nulls.items()},
        bootstrap=cfg.bootstrap.model_dump(mode="json", include={"draws", "level"})
        | {"seed": cfg.seed},
    message:
        "calibration of the experiments: what holds and what does not"
    script:
        "../scripts/experiment_calibration.py"
