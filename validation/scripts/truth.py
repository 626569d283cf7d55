"""Determine which pathway each sample of one calibration cell really uses."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.workflow import jobs
    from validation import rows, truth

    given, product = snakemake.input, snakemake.output.truth
    located, loaded = jobs.model_of(snakemake)
    answers, facts = read_parquet(given.answers), rows.read(given.rows)
    table, counts = truth.truth(answers, facts, loaded, seed=snakemake.params.seed)
    write_parquet(table, product)
    provenance.of_stage(snakemake, product, counts=counts, model=located)
