# Models: fetch and check every checkpoint once, before the jobs that use it. Models with a recipe are
# trained.
#
# in:  the hub, a local folder, or a checkpoint shipped in resources/models/; the questions of every
#      dataset that a recipe names
# out: results/models/<model>.json   where the checkpoint lies and which revision it is
#      results/models/<model>/       config, safetensors, tokenizer; recipe.json, the recipe's hash


localrules:
    model,


rule model:
    input:
        paths.checkpoint,
    output:
        located=f"{RESULTS}/models/{{model}}.json",
        provenance=f"{RESULTS}/models/{{model}}.json.provenance.json",
    log:
        f"{RESULTS}/logs/model/{{model}}.log",
    conda:
        "../envs/gpu.yaml"
    params:
        model=lambda w: cfg.models[w.model].numbers("prompt", "dtype"),
        recipe=lambda w: cfg.recipe_hash(w.model) if cfg.models[w.model].train else None,
        names_prompt=lambda w: cfg.models[w.model].names_prompt,
        on_disk=paths.model_on_disk,
    message:
        "{wildcards.model}: locating the checkpoint"
    script:
        "../scripts/model.py"


rule train:
    input:
        taught,
    output:
        checkpoint=directory(f"{RESULTS}/models/{{model}}"),
        # Only `retrain` needs this file. It is temporary, so `retrain` always trains.
        fresh=temp(f"{RESULTS}/models/.{{model}}.fresh"),
    log:
        f"{RESULTS}/logs/train/{{model}}.log",
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
        worlds=worlds_taught,
    message:
        "{wildcards.model}: training from its recipe"
    script:
        "../scripts/train.py"
