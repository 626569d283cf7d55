# Models: every checkpoint is fetched, trained or dequantised once, and checked, before a job that
# measures needs it.
#
# in:  the hub, a local folder, or a checkpoint shipped in resources/models/; the questions of every
#      dataset that a recipe names; the GGUF file that `local` of a model names
# out: results/models/<model>.json   where the checkpoint lies and which revision it is
#      results/models/<model>/       config, safetensors, tokenizer; recipe.json, the recipe's hash,
#                                    or gguf.json, what the file was


localrules:
    model,


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


rule dequantise:
    input:
        paths.gguf,
    output:
        checkpoint=directory(f"{RESULTS}/models/{{model}}"),
    log:
        f"{RESULTS}/logs/dequantise/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/dequantise/{{model}}.tsv"
    wildcard_constraints:
        model=one_of(name for name, model in cfg.models.items() if is_gguf(model.local or "")),
    conda:
        "../envs/gpu.yaml"
    resources:
        mem_mb=lambda w, attempt: attempt * int(4000 + 3000 * weights_gb(cfg, w.model)),
    params:
        local=lambda w: cfg.models[w.model].local,
        dtype=lambda w: cfg.models[w.model].dtype,
        on_disk=paths.model_on_disk,
    message:
        "{wildcards.model}: dequantising its GGUF file"
    script:
        "../scripts/dequantise.py"


rule model:
    input:
        paths.checkpoint,
    output:
        located=f"{RESULTS}/models/{{model}}.json",
        provenance=f"{RESULTS}/models/{{model}}.json.provenance.json",
    log:
        f"{RESULTS}/logs/model/{{model}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/model/{{model}}.tsv"
    conda:
        "../envs/gpu.yaml"
    params:
        model=lambda w: cfg.models[w.model].numbers("prompt", "dtype"),
        recipe=lambda w: cfg.recipe_hash(w.model) if cfg.models[w.model].train else None,
        on_disk=paths.model_on_disk,
    message:
        "{wildcards.model}: locating the checkpoint"
    script:
        "../scripts/model.py"
