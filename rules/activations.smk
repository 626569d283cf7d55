# Activations: one pass a sample and condition, every layer read at the read-out positions.
#
# in:  answers, the model
# out: results/activations/<model>/<dataset>/   safetensors per planned batch, index.parquet


rule activations:
    input:
        answers=f"{ROOT}/answers/{{model}}/{{dataset}}.parquet",
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        activations=passing(directory(f"{ROOT}/activations/{{model}}/{{dataset}}")),
        provenance=f"{ROOT}/activations/{{model}}/{{dataset}}.provenance.json",
    log:
        f"{ROOT}/logs/activations/{{model}}/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/activations/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/gpu.yaml"
    threads: cores
    resources:
        gpu=gpu("gpus"),
        device=device,
        mem_mb=gpu("mem_mb"),
        runtime=gpu("runtime_min"),
    params:
        dtype=lambda w: cfg.models[w.model].dtype,
        conditions=cfg.conditions.model_dump(mode="json"),
        blocks=cfg.knockout.blocks,
        readouts=list(cfg.readouts),
        batch_tokens=cfg.batch_tokens,
        seed=cfg.seed,
    message:
        "activations of {wildcards.model} on {wildcards.dataset}: measuring"
    script:
        "../scripts/activations.py"
