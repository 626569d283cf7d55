"""Prepare one dataset: sampled questions in the common schema, and few-shot candidates."""

from anchorscope.storage import provenance
from anchorscope.storage.files import digest, write_parquet
from anchorscope.workflow import jobs
from anchorscope.workflow.stage import stage

with stage(snakemake):
    read = digest(snakemake.input) if snakemake.input else None
    prepared = jobs.prepared(snakemake)
    write_parquet(prepared.sampled, snakemake.output.questions)
    write_parquet(prepared.few_shot, snakemake.output.few_shot)
    provenance.of_stage(
        snakemake,
        snakemake.output.questions,
        content=[prepared.revision, read],
        counts=prepared.counts,
        revision=prepared.revision or read,
    )
