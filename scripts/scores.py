"""Fit one cell's probes and score every condition, out of fold."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.models.activations import measured
    from anchorscope.probes.fitting import Settings
    from anchorscope.workflow import jobs, studies

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output
    device = jobs.device_of(snakemake)
    jobs.write_scores(
        written,
        given.activations,
        measured(read_parquet(given.answers), given.activations),
        Settings(**chosen.probe, seed=chosen.seed),
        readouts=chosen.readouts,
        conditions=chosen.conditions,
        device=device,
        # The other variants can be measured where one cannot.
        may_be_empty=studies.varies(snakemake.wildcards.root),
    )
    counts = provenance.counts_of(given.activations)
    provenance.of_stage(snakemake, written.scores, counts=counts, device=device, dtype="float32")
