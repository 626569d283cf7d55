# Refits: how much wider the intervals are when the probes are fitted anew in every bootstrap draw.
#
# in:  activations, answers, the stored probes
# out: results/refits/<model>/<dataset>.csv   results/tables/<figure>.refits.csv


rule refits:
    input:
        answers=frozen_answers,
        activations=product("activations"),
        probes=lambda w: f"{home(w, 'scores')}/probes/{w.model}/{w.dataset}.safetensors",
    output:
        refits=f"{{root}}/refits/{{model}}/{{dataset}}.csv",
        provenance=f"{{root}}/refits/{{model}}/{{dataset}}.csv.provenance.json",
    log:
        f"{{root}}/logs/refits/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/refits/{{model}}/{{dataset}}.tsv"
    group:
        together
    conda:
        "../envs/gpu.yaml"
    threads: cores
    resources:
        **placed(gpus_of_probes),
        mem_mb=asks("refits", "mem_mb", drawn_readouts),
        runtime=asks("refits", "runtime", drawn_readouts),
    params:
        probe=lambda w: study(w).probe.model_dump(mode="json"),
        readouts=drawn_readouts,
        draws=50,
        seed=cfg.seed,
    message:
        "refits of {shown.cell:{wildcards.model}/{wildcards.dataset}/}: fitting the probes to 50 draws of {shown.samples:{wildcards.dataset}/}"
    script:
        "../scripts/refits.py"


rule refits_table:
    input:
        lambda w: [f"{ROOT}/refits/{model}/{dataset}.csv" for model, dataset in cfg.cells(w.figure)],
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
