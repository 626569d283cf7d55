# Answers: greedy answers, their exact tokens (E_A) and labels. Later stages use these token ids.
#
# in:  prompts, questions, the model
# out: results/answers/<model>/<dataset>.parquet


rule answers:
    input:
        prompts=paths.product("prompts", ".parquet"),
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        answers=f"{ROOT}/answers/{{model}}/{{dataset}}.parquet",
        provenance=f"{ROOT}/answers/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{ROOT}/logs/answers/{{model}}/{{dataset}}.log",
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes", "answers"),
    params:
        **CHOICE,
        method=METHOD,
        style=lambda w: cfg.models[w.model].prompt,
        dtype=lambda w: cfg.models[w.model].dtype,
        max_new_tokens=cfg.generation.max_new_tokens,
        max_prompt_tokens=cfg.max_prompt_tokens,
        batch_tokens=cfg.batch_tokens,
        no_answer=cfg.no_answer,
    message:
        "answers of {wildcards.model} on {wildcards.dataset}: generating"
    script:
        "../scripts/answers.py"
