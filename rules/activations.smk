# Activations: one pass a sample and condition, every layer read at the read-out positions.
#
# in:  answers, the model
# out: results/activations/<model>/<dataset>/   safetensors per planned batch, index.parquet


rule activations:
    input:
        answers=frozen_answers,
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        activations=passing(directory(f"{{root}}/activations/{{model}}/{{dataset}}")),
        provenance=f"{{root}}/activations/{{model}}/{{dataset}}.provenance.json",
    log:
        f"{{root}}/logs/activations/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/activations/{{model}}/{{dataset}}.tsv"
    group:
        together
    conda:
        "../envs/gpu.yaml"
    threads: cores
    resources:
        **placed(gpus_of_model),
        mem_mb=asks("activations", "mem_mb"),
        runtime=asks("activations", "runtime"),
    params:
        dtype=lambda w: cfg.models[w.model].dtype,
        conditions=lambda w: study(w).conditions.model_dump(mode="json"),
        blocks=lambda w: study(w).knockout.blocks,
        readouts=lambda w: list(study(w).readouts),
        batch_tokens=cfg.batch_tokens,
        # The folds that partners depend on; nothing else does.
        partner_folds=partner_folds,
        seed=cfg.seed,
    message:
        "ΔP of {shown.cell:{wildcards.model}/{wildcards.dataset}/}: measuring {shown.samples:{wildcards.dataset}/}"
    script:
        "../scripts/activations.py"
