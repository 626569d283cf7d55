# ΔP: how far the probes move under each condition, by each condition's own flips, with intervals.
#
# in:  scores, answers, the activations' index (how many tokens were blocked)
# out: results/delta_p/<model>/<dataset>.csv             one cell's curve
#      results/delta_p/<model>/<dataset>.contrasts.csv   knockout against random
#      results/delta_p/<model>/<dataset>.controls.csv    what else could move the curve, by layer
#      results/delta_p/<model>/<dataset>.crossing.csv    what is read of question, answer and pair
#      results/delta_p/<model>/<dataset>.strata.csv      flips and ΔP among samples that are alike
#      results/delta_p/<model>/<dataset>.density.csv     how Δlogit is spread


rule delta_p:
    input:
        scores=paths.product("scores", ".parquet"),
        floors=paths.product("scores", ".floors.parquet"),
        draws=paths.product("scores", ".draws.safetensors"),
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
    output:
        **{name: f"{{root}}/delta_p/{{model}}/{{dataset}}{end}" for name, end in TABLES.items()},
        provenance=f"{{root}}/delta_p/{{model}}/{{dataset}}.csv.provenance.json",
    log:
        f"{{root}}/logs/delta_p/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/delta_p/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/base.yaml"
    resources:
        **jobs.asks("tables"),
    params:
        probe=lambda w: paths.study(w).probe.model_dump(mode="json", include={"scoring", "prior"}),
        bootstrap=lambda w: paths.study(w).bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "ΔP of {wildcards.model} on {wildcards.dataset}: curve, controls and intervals"
    script:
        "../scripts/delta_p.py"
