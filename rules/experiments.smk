# Experiments: three rules serve all of them, from their records in anchorscope/experiments/.
#
# in:  answers, the model, the stored probes, the scores that form the groups; activations, prompts,
#      floors and planted truth for the experiments that need them
# out: results/experiments/<experiment>/<model>/<dataset>.parquet   scores of the experiment's passes
#      results/tables/<figure>.<experiment>.csv


rule experiment_measure:
    input:
        answers=paths.product("answers", ".parquet"),
        model=f"{RESULTS}/models/{{model}}.json",
        probes=paths.product("probes", ".safetensors"),
        scores=paths.product("scores", ".parquet"),
        activations=paths.if_needed("states", paths.product("activations")),
        prompts=paths.if_needed("prompts", paths.product("prompts", ".parquet")),
    output:
        rows=f"{{root}}/experiments/{{experiment}}/{{model}}/{{dataset}}.parquet",
        provenance=f"{{root}}/experiments/{{experiment}}/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{{root}}/logs/experiments/{{experiment}}/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/experiments/{{experiment}}/{{model}}/{{dataset}}.tsv"
    wildcard_constraints:
        experiment=one_of(EXPERIMENTS),
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes"),
    params:
        dtype=lambda w: cfg.models[w.model].dtype,
        style=lambda w: cfg.models[w.model].prompt,
        readouts=lambda w: list(paths.study(w).readouts),
        draws=lambda w: paths.study(w).draws_of(w.experiment),
        settings=lambda w: paths.study(w).settings_of(w.experiment).model_dump(mode="json"),
        batch_tokens=cfg.batch_tokens,
        seed=cfg.seed,
    message:
        "{wildcards.experiment} of {wildcards.model} on {wildcards.dataset}: measuring"
    script:
        "../scripts/experiment_measure.py"


rule experiment_table:
    input:
        rows=lambda w: paths.of_figure(f"experiments/{w.experiment}", ".parquet")(w),
        scores=paths.of_figure("scores", ".parquet"),
        answers=paths.of_figure("answers", ".parquet"),
        floors=paths.if_needed("floors", paths.of_figure("scores", ".floors.parquet")),
        draws=paths.if_needed("floors", paths.of_figure("scores", ".draws.safetensors")),
        truth=paths.if_needed("truth", paths.truth_of_figure),
    output:
        table=f"{ROOT}/tables/{{figure}}.{{experiment}}.csv",
        provenance=f"{ROOT}/tables/{{figure}}.{{experiment}}.csv.provenance.json",
    log:
        f"{ROOT}/logs/experiment_table/{{figure}}.{{experiment}}.log",
    benchmark:
        f"{ROOT}/benchmarks/experiment_table/{{figure}}.{{experiment}}.tsv"
    wildcard_constraints:
        experiment=one_of(EXPERIMENTS),
    conda:
        "../envs/base.yaml"
    params:
        cells=lambda w: cfg.cells(w.figure),
        bootstrap=cfg.bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "table of {wildcards.experiment} of {wildcards.figure}"
    script:
        "../scripts/experiment_table.py"
