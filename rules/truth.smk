# Truth: which pathway each sample of a calibration world really uses, from behaviour alone.
#
# in:  answers, questions, the model; the questions that training graded
# out: results/calibration/truth/<model>/<dataset>.parquet


rule truth:
    input:
        taught=taught,
        answers=paths.product("answers", ".parquet"),
        questions=f"{RESULTS}/data/{{dataset}}.parquet",
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        truth=f"{{root}}/truth/{{model}}/{{dataset}}.parquet",
        provenance=f"{{root}}/truth/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{{root}}/logs/truth/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/truth/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes"),
    params:
        dtype=lambda w: cfg.models[w.model].dtype,
        train=lambda w: cfg.models[w.model].train.numbers(),
        worlds=lambda w: cfg.worlds_of(w.model),
        conditions=lambda w: paths.study(w).conditions.model_dump(mode="json"),
        batch_tokens=cfg.batch_tokens,
        seed=cfg.seed,
    message:
        "truth of {wildcards.model} on {wildcards.dataset}: swapping the questions"
    script:
        "../scripts/truth.py"
