# Truth: which pathway each sample of a calibration world really uses, from behaviour alone.
#
# in:  answers, questions, the model; the questions that training graded
# out: results/calibration/truth/<model>/<dataset>.parquet


rule truth:
    input:
        taught=taught,
        answers=frozen_answers,
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        truth=f"{{root}}/truth/{{model}}/{{dataset}}.parquet",
        provenance=f"{{root}}/truth/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{{root}}/logs/truth/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/truth/{{model}}/{{dataset}}.tsv"
    group:
        together
    conda:
        "../envs/gpu.yaml"
    threads: cores
    resources:
        **placed(gpus_of_model),
        mem_mb=asks("truth", "mem_mb"),
        runtime=asks("truth", "runtime"),
    params:
        dtype=lambda w: cfg.models[w.model].dtype,
        train=lambda w: numbers(cfg.models[w.model].train),
        worlds=lambda w: cfg.worlds_of(w.model),
        conditions=lambda w: study(w).conditions.model_dump(mode="json"),
        blocks=lambda w: study(w).knockout.blocks,
        batch_tokens=cfg.batch_tokens,
        seed=cfg.seed,
    message:
        "truth of {shown.cell:{wildcards.model}/{wildcards.dataset}/}: swapping the questions of {shown.samples:{wildcards.dataset}/}"
    script:
        "../scripts/truth.py"
