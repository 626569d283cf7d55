# Models: every checkpoint is fetched or dequantised once, and checked, before a job that measures
# needs it; those trained here come from calibration.smk.
#
# in:  the hub, a local folder, or a checkpoint shipped in resources/models/; the GGUF file that
#      `local` of a model names
# out: results/models/<model>.json   where the checkpoint lies and which revision it is
#      results/models/<model>/       config, safetensors, tokenizer; gguf.json, what the file was


localrules:
    model,


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
