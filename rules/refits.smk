# Refits: how much wider the intervals are when the probes are fitted anew in every bootstrap draw.
#
# in:  activations, answers, the stored probes
# out: results/refits/<model>/<dataset>.csv   results/tables/<figure>.refits.csv


rule refits:
    input:
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
        probes=paths.product("probes", ".safetensors"),
    output:
        refits=f"{{root}}/refits/{{model}}/{{dataset}}.csv",
        provenance=f"{{root}}/refits/{{model}}/{{dataset}}.csv.provenance.json",
    log:
        f"{{root}}/logs/refits/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/refits/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(most_gpus=1),
        **jobs.asks("probes"),
    params:
        probe=lambda w: paths.study(w).probe.model_dump(mode="json"),
        readouts=cfg.drawn_readouts,
        draws=50,
        seed=cfg.seed,
    message:
        "refits of {wildcards.model} on {wildcards.dataset}: fitting the probes to 50 draws"
    script:
        "../scripts/refits.py"


rule refits_table:
    input:
        paths.of_figure("refits", ".csv"),
    output:
        table=f"{ROOT}/tables/{{figure}}.refits.csv",
        provenance=f"{ROOT}/tables/{{figure}}.refits.csv.provenance.json",
    log:
        f"{ROOT}/logs/refits_table/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/refits_table/{{figure}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=lambda w: cfg.cells(w.figure),
    message:
        "table of refits of {wildcards.figure}"
    script:
        "../scripts/join.py"
