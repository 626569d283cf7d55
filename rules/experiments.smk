# Experiments: one rule measures all of them, as recorded in anchorscope/experiments/. Their tables
# are made in tables.smk, their pictures in pictures.smk.
#
# in:  answers, the model, the stored probes, the scores that form the groups, prompts
# out: results/experiments/<experiment>/<model>/<dataset>.safetensors   what the experiment measured


rule experiment_measure:
    input:
        answers=paths.product("answers", ".parquet"),
        model=f"{RESULTS}/models/{{model}}.json",
        probes=paths.product("probes", ".safetensors"),
        scores=paths.product("scores", ".safetensors"),
        prompts=paths.product("prompts", ".parquet"),
    output:
        measured=f"{ROOT}/experiments/{{experiment}}/{{model}}/{{dataset}}.safetensors",
        provenance=f"{ROOT}/experiments/{{experiment}}/{{model}}/{{dataset}}.safetensors.provenance.json",
    log:
        f"{ROOT}/logs/experiments/{{experiment}}/{{model}}/{{dataset}}.log",
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes"),
    params:
        method=METHOD,
        dtype=lambda w: cfg.models[w.model].dtype,
        style=lambda w: cfg.models[w.model].prompt,
        readouts=list(cfg.readouts),
        draws=cfg.conditions.random.draws if cfg.conditions.random else 1,
        settings=lambda w: cfg.settings_of(w.experiment).model_dump(mode="json"),
        batch_tokens=cfg.batch_tokens,
        seed=cfg.seed,
    message:
        "{wildcards.experiment} of {wildcards.model} on {wildcards.dataset}: measuring"
    script:
        "../scripts/experiment_measure.py"
