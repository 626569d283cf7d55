"""Ask the model of one cell whether its answers are true."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.detectors import token_probabilities
    from anchorscope.models.vocabulary import check_tokens
    from anchorscope.passes.activations import measured
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.table
    located, loaded = jobs.model_of(snakemake)
    answers = measured(read_parquet(given.answers), given.activations)
    check_tokens(loaded.tokenizer, answers, given.answers)
    write_parquet(token_probabilities.p_true(loaded, answers, style=chosen.prompt), written)
    counts = provenance.counts_of(given.activations)
    provenance.of_stage(snakemake, written, counts=counts, model=located)
