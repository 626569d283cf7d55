# Detectors: a probe of each cell fitted to all its samples, in a folder to use elsewhere.
#
# in:  answers, the prompts they were given to, the model
# out: results/detectors/<model>/<dataset>/probe/   model.safetensors, config.json, README.md
#      results/tables/<figure>.samples.csv          every sample of the figure's cells


localrules:
    samples,


rule detector:
    input:
        answers=paths.product("answers", ".parquet"),
        prompts=paths.product("prompts", ".parquet"),
        model=f"{RESULTS}/models/{{model}}.json",
    output:
        detector=directory(f"{{root}}/detectors/{{model}}/{{dataset}}/probe"),
        provenance=f"{{root}}/detectors/{{model}}/{{dataset}}/probe.provenance.json",
    log:
        f"{{root}}/logs/detector/{{model}}/{{dataset}}.log",
    benchmark:
        f"{{root}}/benchmarks/detector/{{model}}/{{dataset}}.tsv"
    conda:
        "../envs/gpu.yaml"
    threads: jobs.cores
    resources:
        **jobs.place(),
        **jobs.asks("passes"),
    params:
        dtype=lambda w: cfg.models[w.model].dtype,
        style=lambda w: cfg.models[cfg.models[w.model].answers_of or w.model].prompt,
        readout=paths.detected,
        settings=paths.settings_of_detector,
    message:
        "detector of {wildcards.model} on {wildcards.dataset}: fitting"
    script:
        "../scripts/detector.py"


rule samples:
    input:
        scores=paths.of_figure("scores", ".parquet"),
        answers=paths.of_figure("answers", ".parquet"),
    output:
        table=f"{ROOT}/tables/{{figure}}.samples.csv",
        provenance=f"{ROOT}/tables/{{figure}}.samples.csv.provenance.json",
    log:
        f"{ROOT}/logs/samples/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/samples/{{figure}}.tsv"
    conda:
        "../envs/base.yaml"
    params:
        cells=lambda w: cfg.cells(w.figure),
        readout=lambda w: cfg.figures[w.figure].readout,
    message:
        "table of the samples of {wildcards.figure}"
    script:
        "../scripts/samples.py"
