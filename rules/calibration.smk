# Calibration: the instrument against known truth.
#
# in:  answers, questions and the model; scores and ΔP under results/calibration/
# out: results/calibration/truth/<model>/<dataset>.parquet   which pathway each sample really uses
#      results/calibration/calibration/<model>/<dataset>.csv
#      results/figures/calibration.{vl.json,html,svg,pdf,png}


localrules:
    calibration_figure,


rule truth:
    input:
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
        curve=paths.product("delta_p", ".csv"),
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
        "../scripts/table.py"


rule calibration_figure:
    input:
        table=f"{ROOT}/tables/calibration.csv",
    output:
        **drawn("calibration"),
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
