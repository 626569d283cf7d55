# Answers: the model's greedy answer, its anchor (E_A) and its label; token ids frozen from here on.
#
# in:  prompts, questions, the model
# out: results/answers/<model>/<dataset>.parquet
#
# A model with `resources.shards: n` has n jobs generate, each a run of the batches of the whole
# cell; anchors and labels are found once they are together.


rule answers:
    input:
        prompts=product("prompts", ".parquet"),
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        model=f"{RESULTS}/models/{{model}}.json",
        shards=shards("answers"),
        records=shards("answers", ".provenance.json"),
    output:
        answers=f"{{root}}/answers/{{model}}/{{dataset}}.parquet",
        provenance=f"{{root}}/answers/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{{root}}/logs/answers/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/answers/{{model}}/{{dataset}}.tsv"
    group:
        together
    conda:
        "../envs/gpu.yaml"
    threads: cores
    resources:
        **placed(gpus),
        mem_mb=asks("answers", "mem_mb"),
        runtime=asks("answers", "runtime"),
    params:
        style=lambda w: cfg.models[w.model].prompt,
        dtype=lambda w: cfg.models[w.model].dtype,
        max_new_tokens=cfg.generation.max_new_tokens,
        max_prompt_tokens=cfg.max_prompt_tokens,
        batch_tokens=cfg.batch_tokens,
    message:
        "answers of {shown.cell:{wildcards.model}/{wildcards.dataset}/}: generating {shown.samples:{wildcards.dataset}/}"
    script:
        "../scripts/answers.py"


use rule answers as answers_shard with:
    input:
        prompts=product("prompts", ".parquet"),
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        answers=temp(directory(f"{{root}}/.shards/answers/{{model}}/{{dataset}}/{{shard}}")),
        provenance=temp(f"{{root}}/.shards/answers/{{model}}/{{dataset}}/{{shard}}.provenance.json"),
    log:
        f"{{root}}/logs/answers/{{model}}/{{dataset}}.{{shard}}.log",
    benchmark:
        f"{{root}}/benchmarks/answers/{{model}}/{{dataset}}.{{shard}}.tsv"
    message:
        "answers of {shown.cell:{wildcards.model}/{wildcards.dataset}/}: generating {shown.samples:{wildcards.dataset}/}, part {wildcards.shard}"
