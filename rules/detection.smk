# Detection: score by every method how likely each answer is wrong, and compare the methods.
#
# in:  answers, the model, activations, the stored probes and their scores
# out: results/p_true/<model>/<dataset>.parquet                whether the model calls its answers true
#      results/detection/<model>/<dataset>.parquet             scores of every method, out of fold
#      results/detection/<model>/<dataset>.*.csv               one cell's tables
#      results/detectors/<model>/<dataset>/{probe,resid}/      the mean of the fold probes


rule p_true:
    input:
        answers=paths.product("answers", ".parquet"),
        model=f"{RESULTS}/models/{{model}}.json",
        activations=paths.product("activations"),
    output:
        table=f"{ROOT}/p_true/{{model}}/{{dataset}}.parquet",
        provenance=f"{ROOT}/p_true/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{ROOT}/logs/p_true/{{model}}/{{dataset}}.log",
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes"),
    params:
        method=METHOD,
        dtype=lambda w: cfg.models[w.model].dtype,
        prompt=lambda w: cfg.models[w.model].prompt,
        batch_tokens=cfg.batch_tokens,
    message:
        "P(True) of {wildcards.model} on {wildcards.dataset}: asking whether answers are true"
    script:
        "../scripts/p_true.py"


P_TRUE_NEEDED = any(
    "p-true" in method.needs for method in detection_views.named(cfg.detection.methods)
)


rule detection_scores:
    input:
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
        probes=paths.product("probes", ".safetensors"),
        p_true=paths.product("p_true", ".parquet") if P_TRUE_NEEDED else [],
        given=paths.given_scores,
    output:
        scores=f"{ROOT}/detection/{{model}}/{{dataset}}.parquet",
        provenance=f"{ROOT}/detection/{{model}}/{{dataset}}.parquet.provenance.json",
    log:
        f"{ROOT}/logs/detection/{{model}}/{{dataset}}.log",
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(most_gpus=1),
        **jobs.asks("probes"),
    params:
        **({"on_disk": paths.scores_on_disk} if cfg.detection.scores else {}),
        method=METHOD,
        probe=cfg.probe.model_dump(mode="json"),
        readouts=lambda w: cfg.readouts_of(w.model, w.dataset) or cfg.readouts[:1],
        methods=cfg.detection.methods,
        seed=cfg.seed,
    message:
        "detection of {wildcards.model} on {wildcards.dataset}: fitting and scoring every method"
    script:
        "../scripts/detection_scores.py"


rule detection_cell:
    input:
        detection=f"{ROOT}/detection/{{model}}/{{dataset}}.parquet",
        answers=paths.product("answers", ".parquet"),
        activations=paths.product("activations"),
    output:
        **{
            name: f"{ROOT}/detection/{{model}}/{{dataset}}.{name}.csv"
            for name in detection_views.TABLES
        },
        provenance=f"{ROOT}/detection/{{model}}/{{dataset}}.detection.csv.provenance.json",
    log:
        f"{ROOT}/logs/detection/{{model}}/{{dataset}}.tables.log",
    conda:
        "../envs/base.yaml"
    resources:
        **jobs.asks("tables"),
    params:
        method=METHOD,
        bootstrap=cfg.bootstrap.model_dump(mode="json"),
        seed=cfg.seed,
    message:
        "detection of {wildcards.model} on {wildcards.dataset}: tables and intervals"
    script:
        "../scripts/detection_cell.py"


# One detector at the cell's read-out, and one at the residual stream, whose states serving engines
# return. Unless `readouts` holds `resid/final`, one more pass per sample measures it.
rule detector:
    input:
        answers=paths.product("answers", ".parquet"),
        prompts=paths.product("prompts", ".parquet"),
        model=f"{RESULTS}/models/{{model}}.json",
        activations=paths.product("activations"),
        probes=paths.product("probes", ".safetensors"),
        summary=paths.product("delta_p", ".summary.csv"),
    output:
        probe=directory(f"{ROOT}/detectors/{{model}}/{{dataset}}/probe"),
        resid=directory(f"{ROOT}/detectors/{{model}}/{{dataset}}/resid"),
        provenance=[
            f"{ROOT}/detectors/{{model}}/{{dataset}}/probe.provenance.json",
            f"{ROOT}/detectors/{{model}}/{{dataset}}/resid.provenance.json",
        ],
    log:
        f"{ROOT}/logs/detector/{{model}}/{{dataset}}.log",
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes"),
    params:
        method=METHOD,
        dtype=lambda w: cfg.models[w.model].dtype,
        style=lambda w: cfg.models[cfg.models[w.model].answers_of or w.model].prompt,
        readout=paths.detected,
        batch_tokens=cfg.batch_tokens,
        settings=cfg.prompting,
        probe=cfg.probe.model_dump(mode="json"),
        data=lambda w: cfg.named_data(w.dataset),
        seed=cfg.seed,
    message:
        "detectors of {wildcards.model} on {wildcards.dataset}: averaging the fold probes"
    script:
        "../scripts/detector.py"
