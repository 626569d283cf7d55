"""Prepare one dataset: questions in one schema, sampled, and few-shot candidates."""

from anchorscope.questions.datasets import prepare
from anchorscope.storage import provenance
from anchorscope.storage.files import digest, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    chosen = snakemake.params
    dataset = {**chosen.dataset, "local": chosen.local}
    if snakemake.input.few_shot:
        dataset["few_shot"] = {**dataset["few_shot"], "file": snakemake.input.few_shot[0]}
    read = digest(snakemake.input) if snakemake.input else None
    prepared = prepare(
        dataset, sample_size=chosen.sample_size, seed=chosen.seed, hold_back=chosen.hold_back
    )
    write_parquet(prepared.sampled, snakemake.output.questions)
    write_parquet(prepared.few_shot, snakemake.output.few_shot)
    provenance.of_stage(
        snakemake,
        snakemake.output.questions,
        content=[prepared.revision, read],
        counts=prepared.counts,
        revision=prepared.revision or read,
    )
