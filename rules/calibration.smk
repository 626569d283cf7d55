# Calibration: compare results with planted truth and with published results. The rules train models
# on planted facts, make null worlds, and write tables of requirements; see validation/.
#
# in:  the questions of every dataset that a recipe names; answers, questions and the model; scores
#      and ΔP under results/calibration/; resources/published.yaml, and the tables that exist
# out: results/data/<null world>.parquet             questions and the responses to them
#      results/models/<model>/                       config, safetensors, tokenizer; recipe.json,
#                                                    the recipe's hash
#      results/calibration/truth/<model>/<dataset>.parquet   which pathway each sample really uses
#      results/calibration/calibration/<model>/<dataset>.csv
#      results/tables/{calibration,calibration-requirements,null-controls}.csv
#      results/tables/{calibration-experiments,calibration-experiments-requirements,reproduction}.csv
#      results/figures/calibration.{vl.json,html,svg,pdf,png}

from validation import null_worlds


localrules:
    null_world,
    calibration_table,
    null_controls,
    reproduction_table,
    calibration_figure,


NULL_WORLDS = {
    name: entry.world.model_dump(mode="json")
    for name, entry in cfg.datasets.items()
    if entry.world and entry.world.style in null_worlds.FOLLOWS
}
NULLS = {name: null.model_dump(mode="json") for name, null in cfg.calibration.nulls.items()}
HELD = studies.held_cells(cfg)


# Both rules can make the rows of a null world.
ruleorder: null_world > dataset


rule null_world:
    output:
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        few_shot=f"{RESULTS}/data/{{dataset}}.few_shot.parquet",
        provenance=f"{RESULTS}/data/{{dataset}}.parquet.provenance.json",
    log:
        f"{RESULTS}/logs/null_world/{{dataset}}.log",
    wildcard_constraints:
        dataset=one_of(NULL_WORLDS),
    conda:
        "../envs/base.yaml"
    params:
        method=METHOD,
        world=lambda w: NULL_WORLDS[w.dataset],
        seed=cfg.seed,
    message:
        "{wildcards.dataset}: making the questions of a null world"
    script:
        "../scripts/null_world.py"


rule train:
    input:
        taught,
    output:
        checkpoint=directory(f"{RESULTS}/models/{{model}}"),
        # Only `retrain` needs this file. It is temporary, so `retrain` always trains.
        fresh=temp(f"{RESULTS}/models/.{{model}}.fresh"),
    log:
        f"{RESULTS}/logs/train/{{model}}.log",
    wildcard_constraints:
        model=one_of(name for name, model in cfg.models.items() if model.train),
    conda:
        "../envs/gpu.yaml"
    resources:
        runtime=lambda w, attempt: 240 * attempt,
        mem_mb=lambda w, attempt: 4000 * attempt,
    params:
        train=lambda w: cfg.models[w.model].train.numbers(),
        recipe=lambda w: cfg.recipe_hash(w.model),
        worlds=worlds_taught,
    message:
        "{wildcards.model}: training from its recipe"
    script:
        "../scripts/train.py"


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
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes"),
    params:
        method=METHOD,
        dtype=lambda w: cfg.models[w.model].dtype,
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
    conda:
        "../envs/base.yaml"
    params:
        method=METHOD,
        training_seed=lambda w: cfg.models[w.model].train.seed,
        bootstrap=lambda w: paths.study(w).bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "calibration of {wildcards.model} on {wildcards.dataset}: comparing it with the truth"
    script:
        "../scripts/validation_table.py"


rule calibration_table:
    input:
        cells=paths.of_calibration("calibration", ".csv"),
    output:
        table=f"{ROOT}/tables/calibration.csv",
        checks=f"{ROOT}/tables/calibration-requirements.csv",
        provenance=f"{ROOT}/tables/calibration.csv.provenance.json",
    log:
        f"{ROOT}/logs/calibration/table.log",
    conda:
        "../envs/base.yaml"
    params:
        cells=cfg.calibrated(),
    message:
        "calibration: checking the requirements"
    script:
        "../scripts/validation_table.py"


rule null_controls:
    input:
        **{
            name: paths.of_calibration("delta_p", TABLES[name], studies.null_cells(cfg))
            for name in ("curve", "controls", "crossing", "claims")
        },
    output:
        table=f"{ROOT}/tables/null-controls.csv",
        provenance=f"{ROOT}/tables/null-controls.csv.provenance.json",
    log:
        f"{ROOT}/logs/null_controls.log",
    conda:
        "../envs/base.yaml"
    params:
        nulls=NULLS,
    message:
        "null controls: looking for false claims"
    script:
        "../scripts/validation_table.py"


rule experiment_calibration:
    input:
        rows=paths.of_experiments(),
        scores=paths.of_calibration("scores", ".parquet", HELD),
        floors=paths.of_calibration("scores", ".floors.parquet", HELD),
        answers=paths.of_calibration("answers", ".parquet", HELD),
        activations=paths.of_calibration("activations", "", HELD),
        truth=paths.of_calibration("truth", ".parquet"),
    output:
        table=f"{ROOT}/tables/calibration-experiments.csv",
        checks=f"{ROOT}/tables/calibration-experiments-requirements.csv",
        provenance=f"{ROOT}/tables/calibration-experiments.csv.provenance.json",
    log:
        f"{ROOT}/logs/experiment_calibration.log",
    conda:
        "../envs/base.yaml"
    params:
        cells=HELD,
        measured=paths.experiments_held(),
        calibrated=cfg.calibrated(),
        nulls=NULLS,
        bootstrap={"draws": cfg.bootstrap.draws, "level": cfg.bootstrap.level, "seed": cfg.seed},
    message:
        "calibration of the experiments: checking the requirements"
    script:
        "../scripts/validation_table.py"


# Compare measured curves with published ranges, for every published figure whose table exists.
rule reproduction_table:
    input:
        published=f"{paths.resources}/published.yaml",
        curve=paths.built(".csv"),
        others=[
            path
            for name in (*EXPERIMENTS, "detection", "self-awareness")
            for path in paths.built(f".{name}.csv")
        ],
    output:
        table=f"{ROOT}/tables/reproduction.csv",
        provenance=f"{ROOT}/tables/reproduction.csv.provenance.json",
    log:
        f"{ROOT}/logs/reproduction.log",
    conda:
        "../envs/base.yaml"
    params:
        readouts={name: figure.readout for name, figure in cfg.figures.items()},
    message:
        "reproduction: comparing figures with published ranges"
    script:
        "../scripts/validation_table.py"


rule calibration_figure:
    input:
        table=f"{ROOT}/tables/calibration.csv",
    output:
        **drawn("calibration"),
        provenance=f"{ROOT}/figures/calibration.provenance.json",
    log:
        f"{ROOT}/logs/calibration/figure.log",
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
