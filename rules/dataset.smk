# Download: one dataset, from the hub, a local file or the calibration world, in one schema.
#
# in:  the hub, or the rows under `local:`
# out: results/data/<dataset>.parquet            the sampled questions
#      results/data/<dataset>.few_shot.parquet   rows outside the sample, for few-shot examples


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
    benchmark:
        f"{RESULTS}/benchmarks/dataset/{{dataset}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        dataset=lambda w: cfg.datasets[w.dataset].numbers(),
        local=lambda w: cfg.local_of(w.dataset),
        sample_size=lambda w: cfg.sample_size_of(w.dataset),
        hold_back=lambda w: cfg.shows_examples(w.dataset),
        seed=cfg.seed,
    message:
        "{wildcards.dataset}: loading the questions"
    script:
        "../scripts/dataset.py"
