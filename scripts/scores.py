"""Fit one cell's probes and score every condition, out of fold."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.passes.activations import measured
    from anchorscope.probes import fitting
    from anchorscope.probes.samples import kept
    from anchorscope.workflow import jobs, probe_jobs, studies

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output
    device = jobs.device_of(snakemake)
    settings = fitting.Settings(**chosen.probe, seed=chosen.seed)
    answers = measured(read_parquet(given.answers), given.activations)
    why_not = fitting.obstacle(kept(answers), settings)
    if why_not and studies.varies(snakemake.wildcards.root):
        # The other variants can be measured: this one's tables stay empty.
        probe_jobs.write_no_scores(written, why_not)
        salt = None
    else:
        asked = {"readouts": chosen.readouts, "conditions": chosen.conditions}
        folder = given.activations
        design = probe_jobs.write_scores(written, folder, answers, settings, **asked, device=device)
        salt = design.salt
    counts = provenance.counts_of(given.activations)
    facts = {"device": device, "dtype": "float32", "salt_of_folds": salt}
    provenance.of_stage(snakemake, written.scores, counts=counts, **facts)
