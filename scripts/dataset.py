"""Prepare one dataset: questions in one schema, sampled, and few-shot candidates."""

from anchorscope import provenance
from anchorscope.datasets import prepare
from anchorscope.files import write_parquet
from anchorscope.stage import stage

with stage(snakemake):
    chosen = snakemake.params
    dataset = {**chosen.dataset, "local": chosen.local}
    prepared = prepare(dataset, sample_size=chosen.sample_size, seed=chosen.seed)
    write_parquet(prepared.sampled, snakemake.output.questions)
    write_parquet(prepared.few_shot, snakemake.output.few_shot)
    provenance.of_stage(
        snakemake,
        snakemake.output.questions,
        counts=prepared.counts,
        revision=prepared.revision,
    )
