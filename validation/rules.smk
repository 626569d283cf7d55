# The instrument against known truth: compare calibration cells with their planted pathways, and look
# for false claims in null controls. The Snakefile includes these rules if the config names a file of
# such cells, see calibration.yaml.
#
# in:  answers, rows and the model; scores, ΔP and measurements of experiments
# out: results/calibration/worlds/<world>.jsonl           invented rows
#      results/calibration/models/<model>/                config, safetensors, tokenizer, recipe.json
#      <results>/truth/<model>/<dataset>.parquet          which pathway each sample really uses
#      <results>/calibration/<model>/<dataset>.csv
#      <results>/tables/{calibration,calibration-requirements,null-controls}.csv
#      <results>/tables/{calibration-experiments,calibration-experiments-requirements}.csv
#      <results>/figures/calibration.{vl.json,html,svg,pdf,png}

from validation import cells


localrules:
    world,
    calibration_table,
    null_controls,
    calibration_figure,
    retrain,


try:
    known = cells.read(cfg.validation, cfg)
except AnchorscopeError as error:
    sys.exit(f"error: {error}")

# Where models and rows are made: the config names these files under `local`.
MADE = "results/calibration"
NULLS = {name: null.model_dump(mode="json") for name, null in known.nulls.items()}


def taught(wildcards):
    """Return the worlds that a model learns, by name, with their settings."""
    names = known.recipes[wildcards.model].datasets
    return {name: known.worlds[name].model_dump(mode="json") for name in names}


rule world:
    output:
        rows=f"{MADE}/worlds/{{world}}.jsonl",
    log:
        f"{RESULTS}/logs/world/{{world}}.log",
    wildcard_constraints:
        world=one_of(known.worlds),
    conda:
        "../envs/base.yaml"
    params:
        world=lambda w: known.worlds[w.world].model_dump(mode="json"),
    message:
        "{wildcards.world}: inventing its rows"
    script:
        "scripts/world.py"


rule train:
    input:
        lambda w: [ancient(f"{MADE}/worlds/{name}.jsonl") for name in taught(w)],
    output:
        checkpoint=directory(f"{MADE}/models/{{model}}"),
        # Only `retrain` needs this file. It is temporary, so `retrain` always trains.
        fresh=temp(f"{MADE}/models/.{{model}}.fresh"),
    log:
        f"{RESULTS}/logs/train/{{model}}.log",
    wildcard_constraints:
        model=one_of(known.recipes),
    conda:
        "../envs/gpu.yaml"
    resources:
        runtime=lambda w, attempt: 240 * attempt,
        mem_mb=lambda w, attempt: 4000 * attempt,
    params:
        train=lambda w: known.recipes[w.model].numbers(),
        recipe=lambda w: known.recipe(w.model),
        worlds=taught,
    message:
        "{wildcards.model}: training from its recipe"
    script:
        "scripts/train.py"


rule truth:
    input:
        answers=paths.product("answers", ".parquet"),
        rows=lambda w: cfg.local_of(w.dataset),
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        truth=f"{ROOT}/truth/{{model}}/{{dataset}}.parquet",
        provenance=f"{ROOT}/truth/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{ROOT}/logs/truth/{{model}}/{{dataset}}.log",
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
        "scripts/truth.py"


rule calibration_cell:
    input:
        scores=paths.product("scores", ".safetensors"),
        curve=paths.product("delta_p", ".csv"),
        crossing=paths.product("delta_p", ".crossing.csv"),
        truth=f"{ROOT}/truth/{{model}}/{{dataset}}.parquet",
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
    output:
        cell=f"{ROOT}/calibration/{{model}}/{{dataset}}.csv",
        provenance=f"{ROOT}/calibration/{{model}}/{{dataset}}.csv.provenance.json",
    log:
        f"{ROOT}/logs/calibration/{{model}}/{{dataset}}.log",
    conda:
        "../envs/base.yaml"
    params:
        method=METHOD,
        training_seed=lambda w: known.recipes[w.model].seed,
        bootstrap=cfg.bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "calibration of {wildcards.model} on {wildcards.dataset}: comparing it with the truth"
    script:
        "scripts/calibration_cell.py"


rule calibration_table:
    input:
        cells=paths.of_cells("calibration", known.calibrated, ".csv"),
    output:
        table=f"{ROOT}/tables/calibration.csv",
        checks=f"{ROOT}/tables/calibration-requirements.csv",
        provenance=f"{ROOT}/tables/calibration.csv.provenance.json",
    log:
        f"{ROOT}/logs/calibration/table.log",
    conda:
        "../envs/base.yaml"
    params:
        cells=known.calibrated,
    message:
        "calibration: checking the requirements"
    script:
        "scripts/calibration_table.py"


rule null_controls:
    input:
        **{
            name: paths.of_cells("delta_p", known.null, TABLES[name])
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
        "scripts/null_controls.py"


rule experiment_calibration:
    input:
        measured=[
            paths.of_cell(f"experiments/{name}", model, dataset, ".safetensors")
            for name, model, dataset in known.measured
        ],
        scores=paths.of_cells("scores", known.held, ".safetensors"),
        answers=paths.of_cells("answers", known.held, ".parquet"),
        activations=paths.of_cells("activations", known.held),
        truth=paths.of_cells("truth", known.calibrated, ".parquet"),
    output:
        table=f"{ROOT}/tables/calibration-experiments.csv",
        checks=f"{ROOT}/tables/calibration-experiments-requirements.csv",
        provenance=f"{ROOT}/tables/calibration-experiments.csv.provenance.json",
    log:
        f"{ROOT}/logs/experiment_calibration.log",
    conda:
        "../envs/base.yaml"
    params:
        cells=known.held,
        measured=known.measured,
        calibrated=known.calibrated,
        nulls=NULLS,
        bootstrap={"draws": cfg.bootstrap.draws, "level": cfg.bootstrap.level, "seed": cfg.seed},
    message:
        "calibration of the experiments: checking the requirements"
    script:
        "scripts/experiment_calibration.py"


rule calibration_figure:
    input:
        table=f"{ROOT}/tables/calibration.csv",
    output:
        **picture_files("calibration"),
        provenance=f"{ROOT}/figures/calibration.provenance.json",
    log:
        f"{ROOT}/logs/calibration/figure.log",
    conda:
        "../envs/base.yaml"
    params:
        page=paths.figure_page,
        models=list(dict.fromkeys(model for model, _ in known.calibrated)),
        datasets=list(dict.fromkeys(dataset for _, dataset in known.calibrated)),
        label=cfg.labels_of(known.calibrated),
        level=cfg.bootstrap.level,
        chart=cfg.chart.model_dump(mode="json"),
    message:
        "figure calibration: drawing"
    script:
        "scripts/calibration_figure.py"


rule calibration:
    input:
        f"{ROOT}/tables/calibration.csv",
        f"{ROOT}/tables/null-controls.csv",
        paths.pictures("calibration"),


rule:
    name:
        "calibration-experiments"
    input:
        f"{ROOT}/tables/calibration-experiments.csv",


rule:
    name:
        "null-controls"
    input:
        f"{ROOT}/tables/null-controls.csv",


# Models and rows of null controls that are not shipped. They must exist before the run that
# measures them, as all that the config names under `local`.
rule:
    name:
        "null-models"
    input:
        [
            made
            for model, dataset in known.null
            for made in (cfg.models[model].local, cfg.datasets[dataset].local)
            if Path(made).is_relative_to(MADE)
        ],


rule:
    name:
        "retrain-seeds"
    input:
        [f"{MADE}/models/{name}" for name, train in known.recipes.items() if train.seed],


rule retrain:
    input:
        rows=[f"{MADE}/worlds/{name}.jsonl" for name in known.worlds],
        marks=[f"{MADE}/models/.{name}.fresh" for name in known.shipped],
    log:
        f"{RESULTS}/logs/retrain.log",
    message:
        "all models that are shipped are trained"
    run:
        # These marks stay until all models are trained, so an interrupted `retrain` continues.
        for mark in input.marks:
            os.remove(mark)
