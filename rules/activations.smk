# Activations: one pass per sample and condition; all layers are read at the read-out positions.
#
# in:  answers, the model
# out: results/activations/<model>/<dataset>/   safetensors per planned batch, index.parquet


rule activations:
    input:
        answers=paths.product("answers", ".parquet"),
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        activations=passing(directory(f"{ROOT}/activations/{{model}}/{{dataset}}")),
        provenance=f"{ROOT}/activations/{{model}}/{{dataset}}.provenance.json",
    log:
        f"{ROOT}/logs/activations/{{model}}/{{dataset}}.log",
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes", "activations"),
    params:
        **CHOICE,
        method=METHOD,
        dtype=lambda w: cfg.models[w.model].dtype,
        conditions=cfg.conditions.model_dump(mode="json"),
        # Sorted, so that another order of the same read-outs measures nothing again.
        readouts=sorted(cfg.readouts),
        batch_tokens=cfg.batch_tokens,
        # The only settings of the probe that matter here: partners share a fold.
        folds=cfg.probe.model_dump(include={"folds", "disjoint"}),
        seed=cfg.seed,
    message:
        "activations of {wildcards.model} on {wildcards.dataset}: measuring every condition"
    script:
        "../scripts/activations.py"
