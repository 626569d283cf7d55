# Models: fetch and check each hub checkpoint, before the jobs that use it. A local checkpoint is
# checked before the run's first job.
#
# in:  the hub, or a local folder
# out: results/models/<model>.json   where the checkpoint lies and which revision it is


localrules:
    model,


rule model:
    input:
        paths.checkpoint,
    output:
        located=f"{RESULTS}/models/{{model}}.json",
        provenance=f"{RESULTS}/models/{{model}}.json.provenance.json",
    log:
        f"{RESULTS}/logs/model/{{model}}.log",
    conda:
        "../envs/gpu.yaml"
    params:
        model=lambda w: cfg.models[w.model].numbers("prompt", "dtype"),
        names_prompt=lambda w: cfg.models[w.model].names_prompt,
        on_disk=paths.model_on_disk,
    message:
        "{wildcards.model}: locating the checkpoint"
    script:
        "../scripts/model.py"
