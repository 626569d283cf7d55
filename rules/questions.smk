# Questions: a dataset from the hub or from local files, in the common schema.
# Prompts: the text that a model gets, with the exact question tokens (E_Q) as character spans.
#
# in:  the hub, or the rows under `local:`; the tokenizer for chat templates
# out: results/data/<dataset>.parquet            the pool of questions
#      results/data/<dataset>.few_shot.parquet   rows outside the pool, for few-shot examples
#      results/prompts/<model>/<dataset>.parquet


from anchorscope.styles import style_of


localrules:
    dataset,


rule dataset:
    input:
        rows=paths.local_rows,
        few_shot=paths.few_shot_file,
    output:
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        few_shot=f"{RESULTS}/data/{{dataset}}.few_shot.parquet",
        provenance=f"{RESULTS}/data/{{dataset}}.parquet.provenance.json",
    log:
        f"{RESULTS}/logs/dataset/{{dataset}}.log",
    conda:
        "../envs/base.yaml"
    params:
        method=METHOD,
        dataset=lambda w: cfg.datasets[w.dataset].numbers("pool_size"),
        local=lambda w: cfg.local_of(w.dataset),
        sample_size=lambda w: cfg.pool_size_of(w.dataset),
        hold_back=lambda w: cfg.shows_examples(w.dataset),
        on_disk=paths.rows_on_disk,
        seed=cfg.seed,
    message:
        "{wildcards.dataset}: loading the questions"
    script:
        "../scripts/dataset.py"


rule prompts:
    input:
        lambda w: (
            f"{RESULTS}/models/{w.model}.json"
            if style_of(cfg.models[w.model].prompt).templated
            else []
        ),
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        few_shot=f"{RESULTS}/data/{{dataset}}.few_shot.parquet",
    output:
        prompts=f"{ROOT}/prompts/{{model}}/{{dataset}}.parquet",
        provenance=f"{ROOT}/prompts/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{ROOT}/logs/prompts/{{model}}/{{dataset}}.log",
    conda:
        "../envs/base.yaml"
    params:
        method=METHOD,
        style=lambda w: cfg.models[w.model].prompt,
        anchors=cfg.anchors,
        finder=cfg.finder,
        examples=cfg.generation.few_shot_examples,
        limit=lambda w: cfg.asked_of(w.dataset),
        seed=cfg.seed,
    message:
        "prompts for {wildcards.model} on {wildcards.dataset}: finding the exact question tokens"
    script:
        "../scripts/prompts.py"
