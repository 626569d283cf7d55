"""Write the questions of one null world, and the responses to them."""

from anchorscope.storage import provenance
from anchorscope.storage.files import write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.questions import datasets
    from validation import null_worlds

    chosen, written = snakemake.params, snakemake.output
    samples = null_worlds.samples(chosen.world["style"], seed=chosen.world["seed"])
    prepared = datasets.whole(samples, chosen.seed)
    write_parquet(prepared.sampled, written.questions)
    write_parquet(prepared.few_shot, written.few_shot)
    provenance.of_stage(snakemake, written.questions, counts=prepared.counts)
