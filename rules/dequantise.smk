# Dequantise: a GGUF file made an ordinary checkpoint of floats, once, before it is measured.
#
# in:  the GGUF file that `local` of a model names
# out: results/models/<model>/   config, safetensors, tokenizer, and gguf.json, what it was


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
    message:
        "{wildcards.model}: dequantising its GGUF file"
    script:
        "../scripts/dequantise.py"
