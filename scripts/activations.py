"""Measure one cell, every condition's hidden states at the read-out positions."""

from anchorscope.storage import partial, provenance
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.passes import activations
    from anchorscope.workflow import jobs, probe_jobs

    located, loaded = jobs.model_of(snakemake)
    planned = probe_jobs.plan_of(snakemake, loaded)
    product = snakemake.output.activations
    waits = partial.folder_for(snakemake, product, loaded.device.type, planned)
    passes = activations.write(waits, loaded, planned, snakemake.params.readouts)
    provenance.of_stage(
        snakemake,
        product,
        counts=planned.counts,
        model=located,
        passes=passes,
        device=passes["device"],
        dtype=passes["dtype"],
    )
    partial.publish(waits, product)
