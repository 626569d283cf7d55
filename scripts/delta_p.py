"""Make the tables of one cell: curve, contrasts, controls, pair terms, claims and summary."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.cell import tables
    from anchorscope.passes.activations import measured
    from anchorscope.statistics.scores import Scores
    from anchorscope.workflow.tables import write

    given, chosen = snakemake.input, snakemake.params
    made = tables.of_main_run(
        Scores.read(given.scores),
        measured(read_parquet(given.answers), given.activations),
        bootstrap=chosen.bootstrap,
        seed=chosen.seed,
    )
    write(snakemake, made, counts=provenance.counts_of(given.scores))
