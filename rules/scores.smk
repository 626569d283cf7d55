# Scores: probes of all layers, folds and penalties in one solve; out-of-fold s and p everywhere.
#
# in:  activations, the labels of the answers
# out: results/scores/<model>/<dataset>.parquet


rule scores:
    input:
        answers=f"{ROOT}/answers/{{model}}/{{dataset}}.parquet",
        activations=f"{ROOT}/activations/{{model}}/{{dataset}}",
    output:
        scores=f"{ROOT}/scores/{{model}}/{{dataset}}.parquet",
        provenance=f"{ROOT}/scores/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{ROOT}/logs/scores/{{model}}/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/scores/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/gpu.yaml"
    threads: cores
    resources:
        gpu=gpu("gpus"),
        device=device,
        mem_mb=gpu("mem_mb"),
        runtime=gpu("runtime_min"),
    params:
        probe=cfg.probe.model_dump(mode="json"),
        readouts=list(cfg.readouts),
        conditions=cfg.conditions.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "scores of {wildcards.model} on {wildcards.dataset}: fitting the probes"
    script:
        "../scripts/scores.py"
