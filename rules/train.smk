# Train: a small model from a recipe of the catalogue, saved like any checkpoint of the hub.
#
# in:  the questions of every dataset that the recipe names
# out: results/models/<model>/   config, safetensors, tokenizer, and recipe.json, the recipe's hash


rule train:
    input:
        taught,
    output:
        checkpoint=directory(f"{RESULTS}/models/{{model}}"),
        # Wanted by `retrain` alone, and gone once that is done: so it trains whatever is there.
        fresh=temp(f"{RESULTS}/models/.{{model}}.fresh"),
    log:
        f"{RESULTS}/logs/train/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train/{{model}}.tsv"
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
        worlds=lambda w: cfg.worlds_of(w.model),
    message:
        "{wildcards.model}: training from its recipe"
    script:
        "../scripts/train.py"
