"""Fit the probes of one cell and score every condition out of fold."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.passes.activations import measured, readouts
    from anchorscope.probes import fitting
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output
    device = jobs.device_of(snakemake)
    settings = fitting.ProbeSettings(**chosen.probe, seed=chosen.seed)
    answers = measured(read_parquet(given.answers), given.activations)
    design = jobs.write_scores(
        written,
        given.activations,
        answers,
        settings,
        readouts=readouts(given.activations, chosen.readouts),
        conditions=chosen.conditions,
        device=device,
    )
    counts = provenance.counts_of(given.activations)
    facts = {"device": device, "dtype": "float32", "salt_of_folds": design.salt}
    provenance.of_stage(snakemake, written.scores, counts=counts, **facts)
