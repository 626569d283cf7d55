# Train: a small model from a recipe of the catalogue, saved like any checkpoint of the hub.
#
# in:  the questions of every dataset that the recipe names
# out: results/models/<model>/   config, safetensors, tokenizer, and recipe.json, the recipe's hash


def taught(wildcards):
    # A recipe names what is learned; newer files with the same content need no new training.
    return ancient(
        [f"{RESULTS}/data/{name}.parquet" for name in cfg.models[wildcards.model].train.datasets]
    )


rule train:
    input:
        taught,
    output:
        directory(f"{RESULTS}/models/{{model}}"),
    params:
        train=lambda w: numbers(cfg.models[w.model].train),
        recipe=lambda w: cfg.recipe_hash(w.model),
        worlds=lambda w: cfg.worlds_of(w.model),
    wildcard_constraints:
        model=one_of(name for name, model in cfg.models.items() if model.train),
    log:
        f"{RESULTS}/logs/train/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train/{{model}}.tsv"
    conda:
        "../envs/gpu.yaml"
    resources:
        runtime=240,
        mem_mb=4000,
    message:
        "{wildcards.model}: training from its recipe"
    script:
        "../scripts/train.py"
