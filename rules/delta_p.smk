# ΔP: how far the probes move under each condition, by each condition's own flips, with intervals.
#
# in:  scores, answers, the activations' index (how many tokens were blocked)
# out: results/delta_p/<model>/<dataset>.csv             one cell's curve
#      results/delta_p/<model>/<dataset>.contrasts.csv   knockout against random, paired


rule delta_p:
    input:
        scores=f"{ROOT}/scores/{{model}}/{{dataset}}.parquet",
        answers=f"{ROOT}/answers/{{model}}/{{dataset}}.parquet",
        activations=f"{ROOT}/activations/{{model}}/{{dataset}}",
    output:
        curve=f"{ROOT}/delta_p/{{model}}/{{dataset}}.csv",
        contrasts=f"{ROOT}/delta_p/{{model}}/{{dataset}}.contrasts.csv",
        provenance=f"{ROOT}/delta_p/{{model}}/{{dataset}}.csv.provenance.json",
    log:
        f"{ROOT}/logs/delta_p/{{model}}/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/delta_p/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        bootstrap=cfg.bootstrap.model_dump(mode="json"),
        grouping=cfg.grouping,
        seed=cfg.seed,
    message:
        "ΔP of {wildcards.model} on {wildcards.dataset}"
    script:
        "../scripts/delta_p.py"
