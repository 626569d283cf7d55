# Prompts: the text a model is asked, and the question's anchors (E_Q) as spans of its characters.
#
# in:  results/data/<dataset>.parquet, its few-shot candidates; the tokenizer for chat templates
# out: results/prompts/<model>/<dataset>.parquet


rule prompts:
    input:
        paths.template,
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        few_shot=f"{RESULTS}/data/{{dataset}}.few_shot.parquet",
    output:
        prompts=f"{{root}}/prompts/{{model}}/{{dataset}}.parquet",
        provenance=f"{{root}}/prompts/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{{root}}/logs/prompts/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/prompts/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        style=lambda w: cfg.models[w.model].prompt,
        anchors=lambda w: paths.study(w).anchors,
        finder=lambda w: paths.study(w).finder,
        examples=cfg.generation.few_shot_examples,
        limit=cfg.limit,
        seed=cfg.seed,
    message:
        "prompts for {wildcards.model} on {wildcards.dataset}: finding the question anchors"
    script:
        "../scripts/prompts.py"
