# Scores: fit the probes, and score every sample out of fold (logit s, probability p).
#
# in:  activations, the labels of the answers
# out: results/scores/<model>/<dataset>.safetensors   scores of probes, refits and text models
#      results/scores/<model>/<dataset>.parquet       the scores of the probes as a table
#      results/probes/<model>/<dataset>.safetensors   the probes themselves


rule scores:
    input:
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
    output:
        scores=f"{ROOT}/scores/{{model}}/{{dataset}}.safetensors",
        table=f"{ROOT}/scores/{{model}}/{{dataset}}.parquet",
        probes=f"{ROOT}/probes/{{model}}/{{dataset}}.safetensors",
        provenance=f"{ROOT}/scores/{{model}}/{{dataset}}.safetensors.provenance.json",
    log:
        f"{ROOT}/logs/scores/{{model}}/{{dataset}}.log",
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(most_gpus=1),
        **jobs.asks("probes", "scores"),
    params:
        method=METHOD,
        probe=cfg.probe.model_dump(mode="json"),
        readouts=list(cfg.readouts),
        conditions=cfg.conditions.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "scores of {wildcards.model} on {wildcards.dataset}: fitting the probes"
    script:
        "../scripts/scores.py"
